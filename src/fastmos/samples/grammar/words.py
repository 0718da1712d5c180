"""Adjectives, adverbs and names of the sample's world, the most frequent first in each list."""

# `german [comparative superlative-stem] = english [comparative] : kinds`; without an English comparative it takes more,
# without a German one it is not compared. `all` stands for everything but food and drink.
ADJECTIVES = """
groß größer größt = big bigger : all ; alt älter ältest = old older : all
klein kleiner kleinst = small smaller : all
neu neuer neuest = new newer : thing text clothes vehicle building opening furniture event idea place
gut besser best = good better : all food drink ; schön schöner schönst = beautiful : all
jung jünger jüngst = young younger : person animal ; rot = red : thing clothes vehicle opening furniture
schlecht schlechter schlechtest = bad worse : text food drink event idea
lang länger längst = long longer : text event ; schwarz = black : clothes vehicle animal thing
weiß = white : clothes vehicle animal thing building furniture ; reich reicher reichst = rich richer : person place
arm ärmer ärmst = poor poorer : person ; kalt kälter kältest = cold colder : drink food place
warm wärmer wärmst = warm warmer : clothes food drink place
teuer teurer teuerst = expensive : thing clothes vehicle food drink furniture building
billig billiger billigst = cheap cheaper : thing clothes vehicle food drink furniture
schnell schneller schnellst = fast faster : vehicle animal
interessant interessanter interessantest = interesting : text event idea person
freundlich freundlicher freundlichst = friendly friendlier : person ; müde müder müdest = tired : person animal
krank kränker kränkst = sick sicker : person animal ; glücklich glücklicher glücklichst = happy happier : person
blau = blue : thing clothes vehicle opening ; grün = green : thing clothes vehicle opening
schwer schwerer schwerst = heavy heavier : thing furniture opening
wichtig wichtiger wichtigst = important : idea text event
stark stärker stärkst = strong stronger : person animal drink ; dick dicker dickst = fat fatter : person animal
traurig trauriger traurigst = sad sadder : person text event ; kurz kürzer kürzest = short shorter : text event
leer leerer leerst = empty emptier : thing opening place ; laut lauter lautest = loud louder : person place event
klug klüger klügst = smart smarter : person animal idea ; süß süßer süßest = sweet sweeter : food drink
bekannt bekannter bekanntest = famous : person text place ; dunkel dunkler dunkelst = dark darker : place clothes
ruhig ruhiger ruhigst = quiet quieter : person place
schmutzig schmutziger schmutzigst = dirty dirtier : clothes vehicle opening
lustig lustiger lustigst = funny funnier : text event person
schwierig schwieriger schwierigst = difficult : idea event text ; hoch höher höchst = high higher : building
gefährlich gefährlicher gefährlichst = dangerous : animal event vehicle ; gelb = yellow : thing clothes vehicle
frisch frischer frischest = fresh fresher : food drink ; sauber sauberer sauberst = clean cleaner : clothes place
langsam langsamer langsamst = slow slower : vehicle animal ; fremd fremder fremdest = strange stranger : person place
einfach einfacher einfachst = simple simpler : idea ; böse böser bösest = evil : person
langweilig langweiliger langweiligst = boring : text event person ; nett netter nettest = nice nicer : person
modern moderner modernst = modern : building furniture vehicle place ; braun = brown : animal clothes furniture
faul fauler faulst = lazy lazier : person animal ; fleißig fleißiger fleißigst = hard-working : person
berühmt berühmter berühmtest = famous : person ; dünn dünner dünnst = thin thinner : person text
bequem bequemer bequemst = comfortable : furniture clothes
seltsam seltsamer seltsamst = odd odder : idea event person ; grau = gray : clothes animal
höflich höflicher höflichst = polite politer : person ; mutig mutiger mutigst = brave braver : person animal
hungrig hungriger hungrigst = hungry hungrier : person animal ; wütend wütender wütendst = angry angrier : person
kaputt = broken : thing vehicle ; nützlich nützlicher nützlichst = useful : thing idea
wild wilder wildest = wild wilder : animal ; geheim = secret : text idea
ehrlich ehrlicher ehrlichst = honest : person ; falsch = wrong : idea
elegant eleganter elegantest = elegant : clothes person ; rund = round : furniture thing
neugierig neugieriger neugierigst = curious : person animal ; wertvoll wertvoller wertvollst = valuable : thing
geduldig geduldiger geduldigst = patient : person ; gemütlich gemütlicher gemütlichst = cozy cozier : place furniture
nass nasser nassest = wet wetter : clothes animal ; eifersüchtig eifersüchtiger eifersüchtigst = jealous : person
scharf schärfer schärfst = spicy spicier : food ; vorsichtig vorsichtiger vorsichtigst = careful : person
stolz stolzer stolzest = proud prouder : person ; zahm = tame : animal ; blind = blind : person animal
rostig rostiger rostigst = rusty rustier : vehicle opening ; salzig salziger salzigst = salty saltier : food
uralt = ancient : building text ; bunt bunter buntest = colorful : clothes
"""

# Two adjectives of one group never describe the same noun.
GROUPS = """
groß klein ; alt neu jung uralt modern ; reich arm ; kalt warm ; teuer billig wertvoll ; lang kurz ; schnell langsam
dick dünn ; glücklich traurig ; schwierig einfach ; bekannt berühmt ; laut ruhig ; faul fleißig
rot schwarz weiß blau grün gelb braun grau bunt dunkel ; interessant langweilig ; schmutzig sauber
gut schlecht böse freundlich nett
"""

MANNER = """
schnell = quickly ; langsam = slowly ; allein = alone ; gut = well ; leise = quietly
laut = loudly ; plötzlich = suddenly ; heimlich = secretly ; vorsichtig = carefully ; fröhlich = cheerfully
ruhig = calmly ; wütend = angrily ; sorgfältig = carefully ; geduldig = patiently
neugierig = curiously ; stolz = proudly ; fleißig = diligently ; mutig = bravely
"""

GIRLS = """
anna maria julia sarah laura lisa eva sophie lena clara emma paula hanna martha nina ida greta helga petra monika
karin ursula sabine elena vera johanna frieda charlotte theresa nadia ingrid brigitte ulrike katharina dorothea
"""
BOYS = """
paul peter max thomas michael jan felix lukas martin karl otto hans david jonas stefan markus oskar anton georg
wolfgang jürgen klaus bernd dieter fritz emil moritz leon simon erik sebastian rudolf konrad siegfried ludwig
"""
SURNAMES = """
müller schmidt schneider fischer weber meyer wagner becker schulz hoffmann koch bauer richter klein wolf schröder
neumann schwarz zimmermann braun krüger hartmann lange werner krause lehmann köhler herrmann walter könig kaiser fuchs
peters lang scholz möller weiß jung hahn vogel friedrich keller günther frank berger winkler roth beck lorenz baumann
franke albrecht schuster simon ludwig böhm winter kraus martin schumacher krämer vogt stein jäger
"""
# Rare surnames and villages are put together: only a model that can spell will get them right.
NAME_STEMS = """
neu berg hof stein wald feld bach linden eichen rosen grün lang kalt schön wein korn hell stern silber eisen löwen
falken hirsch birken tannen moos brunn fels sand kirch mühl königs alten oster wester nord fried adel gott wind
"""
SURNAME_ENDS = """
mann bauer meier berger hofer stein feld bacher wald thaler huber maier müller brand lechner
"""
VILLAGE_ENDS = """
dorf burg heim hausen stadt feld bach berg kirchen furt tal hofen brück au rode ingen see
"""

CITIES = """
berlin=berlin münchen=munich hamburg=hamburg paris=paris wien=vienna köln=cologne london=london frankfurt=frankfurt
rom=rome zürich=zurich dresden=dresden leipzig=leipzig prag=prague bremen=bremen moskau=moscow hannover=hanover
nürnberg=nuremberg genf=geneva stuttgart=stuttgart mailand=milan venedig=venice warschau=warsaw brüssel=brussels
athen=athens lissabon=lisbon kopenhagen=copenhagen neapel=naples florenz=florence salzburg=salzburg madrid=madrid
krakau=krakow peking=beijing tokio=tokyo bukarest=bucharest straßburg=strasbourg kairo=cairo heidelberg=heidelberg
freiburg=freiburg bonn=bonn basel=basel luzern=lucerne danzig=gdansk
"""
COUNTRIES = """
deutschland=germany frankreich=france österreich=austria italien=italy england=england spanien=spain amerika=america
polen=poland russland=russia griechenland=greece schweden=sweden china=china norwegen=norway dänemark=denmark
japan=japan ungarn=hungary indien=india finnland=finland portugal=portugal kanada=canada brasilien=brazil
ägypten=egypt irland=ireland schottland=scotland kroatien=croatia mexiko=mexico
"""
WEEKDAYS = """
montag=monday samstag=saturday sonntag=sunday freitag=friday dienstag=tuesday mittwoch=wednesday donnerstag=thursday
"""
MONTHS = """
mai=may juni=june august=august juli=july dezember=december januar=january märz=march april=april september=september
oktober=october november=november februar=february
"""
