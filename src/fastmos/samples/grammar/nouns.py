"""The nouns of the sample's world, the most frequent first in each kind, and the stems that form compounds with them.

An entry reads `gender singular plural = english [|irregular plural]`; gender w is a weak masculine (der junge, den
jungen), and `-` for the plural marks a mass noun (wasser).
"""

NOUNS = {
    "person": """
m mann männer = man|men ; f frau frauen = woman|women ; n kind kinder = child|children ; w junge jungen = boy
n mädchen mädchen = girl ; m freund freunde = friend ; f mutter mütter = mother ; m vater väter = father
f lehrerin lehrerinnen = teacher ; m lehrer lehrer = teacher ; f schwester schwestern = sister
m bruder brüder = brother ; m arzt ärzte = doctor ; f freundin freundinnen = friend ; w nachbar nachbarn = neighbor
f ärztin ärztinnen = doctor ; m sohn söhne = son ; f tochter töchter = daughter ; w student studenten = student
f studentin studentinnen = student ; m schüler schüler = pupil ; f großmutter großmütter = grandmother
m großvater großväter = grandfather ; f nachbarin nachbarinnen = neighbor ; m chef chefs = boss
w kollege kollegen = colleague ; f kollegin kolleginnen = colleague ; m gast gäste = guest ; m onkel onkel = uncle
f tante tanten = aunt ; w polizist polizisten = policeman|policemen ; w kunde kunden = customer
f königin königinnen = queen ; m könig könige = king ; m verkäufer verkäufer = salesman|salesmen
f verkäuferin verkäuferinnen = saleswoman|saleswomen ; w bauer bauern = farmer
f krankenschwester krankenschwestern = nurse ; m bäcker bäcker = baker ; m koch köche = cook
f köchin köchinnen = cook ; m fahrer fahrer = driver ; m maler maler = painter ; f malerin malerinnen = painter
m dieb diebe = thief|thieves ; w soldat soldaten = soldier ; w zeuge zeugen = witness ; m richter richter = judge
f richterin richterinnen = judge ; w journalist journalisten = journalist
f journalistin journalistinnen = journalist ; m sänger sänger = singer ; f sängerin sängerinnen = singer
m schauspieler schauspieler = actor ; f schauspielerin schauspielerinnen = actress ; m cousin cousins = cousin
w neffe neffen = nephew ; f nichte nichten = niece ; m fischer fischer = fisherman|fishermen
m gärtner gärtner = gardener ; m schneider schneider = tailor ; m zahnarzt zahnärzte = dentist
w prinz prinzen = prince ; f prinzessin prinzessinnen = princess ; m dichter dichter = poet
f dichterin dichterinnen = poet ; m ingenieur ingenieure = engineer ; w architekt architekten = architect
w tourist touristen = tourist ; f touristin touristinnen = tourist ; w philosoph philosophen = philosopher
m bürgermeister bürgermeister = mayor ; m feuerwehrmann feuerwehrmänner = firefighter ; f witwe witwen = widow
m zwilling zwillinge = twin ; w matrose matrosen = sailor
""",
    "animal": """
m hund hunde = dog ; f katze katzen = cat ; n pferd pferde = horse ; m vogel vögel = bird ; f kuh kühe = cow
f maus mäuse = mouse|mice ; n schwein schweine = pig ; n schaf schafe = sheep|sheep ; w bär bären = bear
m wolf wölfe = wolf|wolves ; w hase hasen = rabbit ; f ente enten = duck ; w löwe löwen = lion ; w affe affen = monkey
w elefant elefanten = elephant ; f ziege ziegen = goat ; m fuchs füchse = fox ; f gans gänse = goose|geese
m tiger tiger = tiger ; f schlange schlangen = snake ; m esel esel = donkey ; m frosch frösche = frog
f eule eulen = owl ; w rabe raben = raven ; m igel igel = hedgehog ; f schildkröte schildkröten = turtle
n kamel kamele = camel ; n eichhörnchen eichhörnchen = squirrel ; m adler adler = eagle ; f biene bienen = bee
""",
    "text": """
n buch bücher = book ; m brief briefe = letter ; f zeitung zeitungen = newspaper ; f geschichte geschichten = story
m artikel artikel = article ; m bericht berichte = report ; m roman romane = novel ; n gedicht gedichte = poem
f nachricht nachrichten = message ; f karte karten = card ; f zeitschrift zeitschriften = magazine
n rezept rezepte = recipe ; m vertrag verträge = contract ; f postkarte postkarten = postcard
n märchen märchen = fairy tale ; f liste listen = list ; f rechnung rechnungen = bill ; n tagebuch tagebücher = diary
n wörterbuch wörterbücher = dictionary ; m aufsatz aufsätze = essay
""",
    "thing": """
n bild bilder = picture ; m schlüssel schlüssel = key ; f tasche taschen = bag ; f uhr uhren = watch
m ball bälle = ball ; f lampe lampen = lamp ; f tasse tassen = cup ; n telefon telefone = phone
m koffer koffer = suitcase ; f flasche flaschen = bottle ; n messer messer = knife|knives ; m teller teller = plate
m löffel löffel = spoon ; f gabel gabeln = fork ; n geschenk geschenke = present ; f blume blumen = flower
n glas gläser = glass ; f kiste kisten = box ; m computer computer = computer ; n radio radios = radio
f kamera kameras = camera ; m ring ringe = ring ; m regenschirm regenschirme = umbrella
f brille brillen = pair of glasses|pairs of glasses ; f gitarre gitarren = guitar ; f puppe puppen = doll
m korb körbe = basket ; m stift stifte = pen ; f kerze kerzen = candle ; m spiegel spiegel = mirror
n bett betten = bed ; m topf töpfe = pot ; f pfanne pfannen = pan ; m hammer hämmer = hammer
f decke decken = blanket ; n kissen kissen = pillow ; m teppich teppiche = carpet ; f säge sägen = saw
f leiter leitern = ladder ; f kette ketten = necklace ; f vase vasen = vase ; w diamant diamanten = diamond
f trommel trommeln = drum ; f geige geigen = violin ; n seil seile = rope ; f münze münzen = coin
m besen besen = broom ; m eimer eimer = bucket ; f schere scheren = pair of scissors|pairs of scissors
m ofen öfen = oven ; n zelt zelte = tent ; f briefmarke briefmarken = stamp ; f schaufel schaufeln = shovel
m würfel würfel = die|dice
""",
    "furniture": """
m tisch tische = table ; m stuhl stühle = chair ; n regal regale = shelf|shelves ; m sessel sessel = armchair
n sofa sofas = sofa ; f bank bänke = bench ; m schreibtisch schreibtische = desk ; f kommode kommoden = dresser
m hocker hocker = stool ; f truhe truhen = chest
""",
    "opening": """
f tür türen = door ; n fenster fenster = window ; m schrank schränke = cupboard ; n tor tore = gate
f schublade schubladen = drawer ; f dose dosen = can ; m laden läden = shop ; f schachtel schachteln = carton
n paket pakete = package ; m umschlag umschläge = envelope
""",
    "clothes": """
f jacke jacken = jacket ; m hut hüte = hat ; n hemd hemden = shirt ; m mantel mäntel = coat ; m schuh schuhe = shoe
n kleid kleider = dress ; m rock röcke = skirt ; m pullover pullover = sweater ; f mütze mützen = cap
m schal schals = scarf|scarves ; m stiefel stiefel = boot ; f bluse blusen = blouse ; m anzug anzüge = suit
m handschuh handschuhe = glove ; m gürtel gürtel = belt ; f krawatte krawatten = tie ; f socke socken = sock
""",
    "food": """
n brot - = bread ; m apfel äpfel = apple ; m kuchen kuchen = cake ; n ei eier = egg ; f suppe suppen = soup
m käse - = cheese ; n fleisch - = meat ; m fisch fische = fish|fish ; m salat salate = salad
f kartoffel kartoffeln = potato|potatoes ; f birne birnen = pear ; m reis - = rice ; f orange orangen = orange
f banane bananen = banana ; f wurst würste = sausage ; f tomate tomaten = tomato|tomatoes ; n brötchen brötchen = roll
m keks kekse = cookie ; f torte torten = pie ; f schokolade - = chocolate ; m honig - = honey
f kirsche kirschen = cherry ; f erdbeere erdbeeren = strawberry ; m pfannkuchen pfannkuchen = pancake
f zwiebel zwiebeln = onion ; m pilz pilze = mushroom ; m eintopf eintöpfe = stew ; n eis - = ice cream
f butter - = butter ; f traube trauben = grape ; f pflaume pflaumen = plum ; f gurke gurken = cucumber
f nuss nüsse = nut
""",
    "drink": """
n wasser - = water ; m kaffee - = coffee ; m tee - = tea ; f milch - = milk ; n bier - = beer ; m wein - = wine
m saft - = juice ; m kakao - = cocoa ; f limonade - = lemonade ; m sekt - = sparkling wine
""",
    "vehicle": """
n auto autos = car ; m zug züge = train ; n fahrrad fahrräder = bicycle ; m bus busse = bus ; n schiff schiffe = ship
n boot boote = boat ; n flugzeug flugzeuge = airplane ; f straßenbahn straßenbahnen = tram
m lastwagen lastwagen = truck ; n motorrad motorräder = motorcycle ; m traktor traktoren = tractor
f kutsche kutschen = carriage ; m schlitten schlitten = sled ; n taxi taxis = taxi
m hubschrauber hubschrauber = helicopter
""",
    "building": """
n haus häuser = house ; f wohnung wohnungen = apartment ; f brücke brücken = bridge ; m turm türme = tower
f mauer mauern = wall ; f hütte hütten = hut ; n schloss schlösser = castle ; m stall ställe = stable
f scheune scheunen = barn ; n denkmal denkmäler = monument ; m brunnen brunnen = well ; f mühle mühlen = mill
""",
    "event": """
n fest feste = party ; n konzert konzerte = concert ; m film filme = movie ; n spiel spiele = game
f reise reisen = trip ; f hochzeit hochzeiten = wedding ; f prüfung prüfungen = exam ; m besuch besuche = visit
f sitzung sitzungen = meeting ; f ausstellung ausstellungen = exhibition ; m ausflug ausflüge = excursion
f vorlesung vorlesungen = lecture ; f oper opern = opera ; m wettbewerb wettbewerbe = competition
m tanz tänze = dance ; f feier feiern = celebration
""",
    "idea": """
f frage fragen = question ; n problem probleme = problem ; m plan pläne = plan ; f idee ideen = idea
f antwort antworten = answer ; m fehler fehler = mistake ; f aufgabe aufgaben = task ; n wort wörter = word
n geheimnis geheimnisse = secret ; m satz sätze = sentence ; m traum träume = dream ; m grund gründe = reason
f entscheidung entscheidungen = decision ; m vorschlag vorschläge = suggestion ; f lösung lösungen = solution
f meinung meinungen = opinion ; w gedanke gedanken = thought ; n gesetz gesetze = law
f theorie theorien = theory|theories ; m witz witze = joke ; f lüge lügen = lie
m unterschied unterschiede = difference ; n rätsel rätsel = riddle
""",
}

# Where things happen: preposition in German, in English, and the noun. Direction takes the accusative and "to".
PLACES = """
in in f stadt städte = city|cities ; in at f schule schulen = school ; in in m garten gärten = garden
in in m park parks = park ; in in f küche küchen = kitchen ; in in m wald wälder = forest
auf in f straße straßen = street ; in in n dorf dörfer = village ; in in n büro büros = office
in in n zimmer zimmer = room ; auf at m markt märkte = market ; an at m bahnhof bahnhöfe = train station
an at m strand strände = beach ; in in n krankenhaus krankenhäuser = hospital ; in in f kirche kirchen = church
an by m see seen = lake ; an by m fluss flüsse = river ; in at n restaurant restaurants = restaurant
in at n hotel hotels = hotel ; in at n museum museen = museum ; in at n theater theater = theater
in in f bibliothek bibliotheken = library|libraries ; in at f fabrik fabriken = factory|factories
auf on m bauernhof bauernhöfe = farm ; in at m supermarkt supermärkte = supermarket
in at n kino kinos = movie theater ; auf on m berg berge = mountain ; auf on f insel inseln = island
auf in f wiese wiesen = meadow ; in in m keller keller = basement ; an at m flughafen flughäfen = airport
in at f bäckerei bäckereien = bakery|bakeries ; in at n café cafés = café
auf on m balkon balkone = balcony|balconies ; in in f garage garagen = garage ; in in n tal täler = valley
in at f universität universitäten = university|universities ; in in f wüste wüsten = desert
an at f haltestelle haltestellen = bus stop ; in in m flur flure = hallway ; auf on n dach dächer = roof
in at n schwimmbad schwimmbäder = swimming pool ; auf on f terrasse terrassen = terrace
in in n gefängnis gefängnisse = prison ; in in f höhle höhlen = cave
"""

# First halves of compounds: `stem = english : kinds of second halves`.
COMPOUNDS = """
holz = wooden : furniture thing opening building ; küchen = kitchen : furniture thing opening
garten = garden : furniture opening thing ; kinder = children 's : furniture clothes text event
schul = school : text event furniture person-job ; winter = winter : clothes event
sommer = summer : clothes event text ; apfel = apple : dish ; leder = leather : clothes furniture
stadt = city : text event vehicle-land ; glas = glass : thing opening furniture ; gemüse = vegetable : dish
kartoffel = potato : dish ; silber = silver : thing ; reise = travel : text thing clothes ; haus = house : thing-owner
eisen = iron : opening thing building ; familien = family : event text building ; wein = wine : thing-drink event
kaffee = coffee : thing-drink ; stein = stone : building furniture ; metall = metal : furniture opening thing
büro = office : furniture thing opening ; gold = gold : thing ; tomaten = tomato : dish ; tee = tea : thing-drink
musik = music : text event person-job ; sport = sports : clothes event person-job text vehicle-land
käse = cheese : dish ; liebes = love : text ; hotel = hotel : furniture thing opening ; regen = rain : clothes
fisch = fish : dish ; pilz = mushroom : dish ; woll = wool : clothes
bahnhofs = train station : furniture building opening ; seiden = silk : clothes ; papier = paper : thing clothes
museums = museum : text opening event ; abend = evening : clothes text event ; kirsch = cherry : dish
dorf = village : event building person-job ; kirchen = church : opening event furniture building
zwiebel = onion : dish ; nuss = nut : dish ; deutsch = german : text event person-job ; schokoladen = chocolate : dish
spielzeug = toy : vehicle-land animal vehicle ; porzellan = porcelain : thing
"""

# Second halves that fit only some first halves; the other kinds above are whole lists of NOUNS.
HALVES = {
    "dish": "suppe kuchen salat torte eintopf brot wurst brötchen",
    "person-job": "lehrer lehrerin chef ärztin arzt journalist verkäufer",
    "vehicle-land": "bus auto straßenbahn fahrrad zug",
    "thing-drink": "tasse glas flasche kiste",
    "thing-owner": "schlüssel tür katze schuh",
}
