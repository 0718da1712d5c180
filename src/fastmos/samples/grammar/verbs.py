"""The verbs of the sample's world, the most frequent first in each frame.

A verb reads `infinitive [3rd-singular past participle] = english [past participle]`; one with a single German form is
weak, `*` marks those that take sein, `+` a separable prefix. `_` joins an English verb to its particle. After a colon
come the kinds of nouns that may be its subject, after the next those of its object.
"""

TRANSITIVE = """
sehen sieht sah gesehen = see saw seen : person animal : person animal vehicle building thing
haben hat hatte gehabt = have had had : person : thing vehicle animal idea clothes text
kaufen = buy bought bought : person : thing food clothes vehicle drink furniture text
lesen liest las gelesen = read read read : person : text
essen isst aß gegessen = eat ate eaten : person animal : food
trinken trinkt trank getrunken = drink drank drunk : person : drink
suchen = look_for looked_for looked_for : person animal : thing person animal clothes
finden findet fand gefunden = find found found : person animal : thing person clothes text
nehmen nimmt nahm genommen = take took taken : person : thing text food clothes
auf+machen = open : person : opening
machen = make made made : person : fehler plan vorschlag witz ausflug reise kuchen salat
kennen kennt kannte gekannt = know knew known : person : person idea text
lieben = love : person : person animal food event
besuchen = visit : person : person building event
brauchen = need : person : thing clothes vehicle furniture person
schreiben schreibt schrieb geschrieben = write wrote written : person : text
hören = hear heard heard : person animal : person animal event
treffen trifft traf getroffen = meet met met : person : person
mit+bringen bringt brachte gebracht = bring_along brought_along brought_along : person : thing food text drink
fragen = ask : person : person
verstehen versteht verstand verstanden = understand understood understood : person : person idea text
zu+machen = close : person : opening
verkaufen = sell sold sold : person : thing food vehicle furniture building clothes
vergessen vergisst vergaß vergessen = forget forgot forgotten : person : thing idea clothes text
an+rufen ruft rief gerufen = call : person : person
holen = get got gotten : person : thing drink food
tragen trägt trug getragen = wear wore worn : person : clothes
verlieren verliert verlor verloren = lose lost lost : person : thing clothes
ein+laden lädt lud geladen = invite : person : person
malen = paint : person : building animal person thing
bauen = build built built : person : building vehicle furniture
kochen = cook : person : food
öffnen = open : person : opening
putzen = clean : person : opening furniture clothes thing
an+sehen sieht sah gesehen = look_at looked_at looked_at : person : thing building event person
waschen wäscht wusch gewaschen = wash : person : clothes vehicle
verstecken = hide hid hidden : person animal : thing food text
bezahlen = pay_for paid_for paid_for : person : food drink clothes thing
reparieren = repair : person : vehicle thing opening
lösen = solve : person : idea
an+ziehen zieht zog gezogen = put_on put_on put_on : person : clothes
fangen fängt fing gefangen = catch caught caught : person animal : animal
ab+holen = pick_up picked_up picked_up : person : person
wieder+finden findet fand gefunden = find_again found_again found_again : person : thing clothes
benutzen = use : person : thing vehicle
stehlen stiehlt stahl gestohlen = steal stole stolen : person : thing vehicle text
zeichnen = draw drew drawn : person : building animal person
auf+räumen = tidy_up tidied_up tidied_up : person : zimmer küche keller garage büro garten
fotografieren = photograph : person : building animal person
probieren = taste : person : food drink
bestellen = order : person : food drink text
schneiden schneidet schnitt geschnitten = cut cut cut : person : food
retten = save : person : person animal
füttern = feed fed fed : person : animal
weg+werfen wirft warf geworfen = throw_away threw_away thrown_away : person : thing clothes food
zerbrechen zerbricht zerbrach zerbrochen = break broke broken : person : thing
mieten = rent : person : vehicle building
verpassen = miss : person : vehicle event
aus+packen = unpack : person : thing
begrüßen = greet : person : person
sammeln = collect : person : thing
beobachten = watch : person animal : person animal
vor+bereiten = prepare : person : event food
übersetzen = translate : person : text
unterschreiben unterschreibt unterschrieb unterschrieben = sign : person : text
erfinden erfindet erfand erfunden = invent : person : idea text
vermissen = miss : person : person animal
ein+packen = pack : person : thing clothes
aus+leihen leiht lieh geliehen = borrow : person : text thing
bemerken = notice : person animal : person animal idea
beschreiben beschreibt beschrieb beschrieben = describe : person : person building thing
zerstören = destroy : person : building thing
durch+lesen liest las gelesen = read_through read_through read_through : person : text
an+bieten bietet bot geboten = offer : person : food drink
erwarten = expect : person : person idea
empfehlen empfiehlt empfahl empfohlen = recommend : person : text event food
ab+lehnen = reject : person : idea
diskutieren = discuss : person : idea
kontrollieren = check : person : vehicle text
verfolgen = chase : animal person : animal person
unterbrechen unterbricht unterbrach unterbrochen = interrupt : person : person event
ein+schenken = pour : person : drink
aus+trinken trinkt trank getrunken = drink_up drank_up drunk_up : person : drink
umarmen = hug hugged hugged : person : person
vor+lesen liest las gelesen = read_aloud read_aloud read_aloud : person : text
korrigieren = correct : person : text idea
entdecken = discover : person animal : building idea animal
"""

INTRANSITIVE = """
schlafen schläft schlief geschlafen = sleep slept slept : person animal
arbeiten = work : person
lachen = laugh : person
spielen = play : person animal
auf+stehen* steht stand gestanden = get_up got_up gotten_up : person
singen singt sang gesungen = sing sang sung : person
weinen = cry : person
tanzen = dance : person
an+kommen* kommt kam gekommen = arrive : person vehicle
ein+schlafen* schläft schlief geschlafen = fall_asleep fell_asleep fallen_asleep : person animal
auf+wachen* = wake_up woke_up woken_up : person animal
schwimmen* schwimmt schwamm geschwommen = swim swam swum : person animal
essen isst aß gegessen = eat ate eaten : person animal
kochen = cook : person
weg+laufen* läuft lief gelaufen = run_away ran_away run_away : person animal
verschwinden* verschwindet verschwand verschwunden = disappear : person animal vehicle
zurück+kommen* kommt kam gekommen = come_back came_back come_back : person
frühstücken = have_breakfast had_breakfast had_breakfast : person
warten = wait : person animal
rauchen = smoke : person
niesen = sneeze : person animal
baden = take_a_bath took_a_bath taken_a_bath : person
lügen lügt log gelogen = lie : person
ab+fahren* fährt fuhr gefahren = leave left left : vehicle
träumen = dream : person
um+ziehen* zieht zog gezogen = move : person
fern+sehen sieht sah gesehen = watch_television watched_television watched_television : person
gewinnen gewinnt gewann gewonnen = win won won : person
schreien schreit schrie geschrien = scream : person
wandern* = hike : person
atmen = breathe : person animal
lächeln = smile : person
auf+passen = pay_attention paid_attention paid_attention : person
aus+gehen* geht ging gegangen = go_out went_out gone_out : person
zittern = tremble : person animal
schweigen schweigt schwieg geschwiegen = keep_quiet kept_quiet kept_quiet : person
hin+fallen* fällt fiel gefallen = fall_down fell_down fallen_down : person
"""

DATIVE = """
helfen hilft half geholfen = help : person : person
gehören = belong_to belonged_to belonged_to : thing animal vehicle clothes building : person
danken = thank : person : person
folgen* = follow : person animal : person animal
antworten = answer : person : person
gefallen gefällt gefiel gefallen = like : clothes thing text event : person
glauben = believe : person : person
zu+hören = listen_to listened_to listened_to : person : person
vertrauen = trust : person : person
begegnen* = run_into ran_into run_into : person : person animal
schaden = harm : idea food : person
gratulieren = congratulate : person : person
widersprechen widerspricht widersprach widersprochen = contradict : person : person
"""

DITRANSITIVE = """
geben gibt gab gegeben = give gave given : thing food text drink clothes
zeigen = show showed shown : thing text building vehicle
schenken = give gave given : thing clothes text animal
bringen bringt brachte gebracht = bring brought brought : thing food drink text
erzählen = tell told told : geschichte märchen witz geheimnis lüge
schicken = send sent sent : text thing clothes
erklären = explain : idea
kaufen = buy bought bought : thing clothes food
leihen leiht lieh geliehen = lend lent lent : vehicle text thing
verkaufen = sell sold sold : vehicle building furniture
versprechen verspricht versprach versprochen = promise : thing animal event
servieren = serve : food drink
an+bieten bietet bot geboten = offer : food drink
weg+nehmen nimmt nahm genommen = take_away took_away taken_away : thing food
zurück+geben gibt gab gegeben = give_back gave_back given_back : thing text
"""
# These English verbs name the person after "to" or "from" instead of before the thing.
TO_PERSON = {"explain": "to", "take_away": "from", "give_back": "to"}

# Verbs with a preposition of their own: `verb = english : preposition case english-preposition : subjects : objects`.
PREPOSITIONAL = """
warten = wait : auf acc for : person : person vehicle
sprechen spricht sprach gesprochen = talk : mit dat to : person : person
denken denkt dachte gedacht = think : an acc about : person : person event idea
spielen = play : mit dat with : person animal : animal thing person
sprechen spricht sprach gesprochen = talk : über acc about : person : text event idea person
fragen = ask : nach dat about : person : text event person
träumen = dream : von dat of : person : building vehicle event
suchen = search : nach dat for : person animal : thing person animal
lachen = laugh : über acc about : person : idea text
arbeiten = work : an dat on : person : text idea building
antworten = reply : auf acc to : person : text idea
auf+passen = look_after looked_after looked_after : auf acc ~ : person : animal thing
glauben = believe : an acc in : person : person idea
teil+nehmen nimmt nahm genommen = take_part took_part taken_part : an dat in : person : event
zweifeln = doubt : an dat ~ : person : idea
schimpfen = complain : über acc about : person : person event food
streiten streitet stritt gestritten = argue : mit dat with : person : person
an+fangen fängt fing gefangen = start : mit dat with : person : event idea
riechen riecht roch gerochen = smell : nach dat of : clothes thing : food drink
"""

MOTION = """
gehen* geht ging gegangen = go went gone : person
fahren* fährt fuhr gefahren = drive drove driven : person
kommen* kommt kam gekommen = come came come : person
laufen* läuft lief gelaufen = run ran run : person animal
reisen* = travel : person
fliegen* fliegt flog geflogen = fly flew flown : person
zurück+fahren* fährt fuhr gefahren = drive_back drove_back driven_back : person
eilen* = hurry : person
mit+kommen* kommt kam gekommen = come_along came_along come_along : person
rennen* rennt rannte gerannt = run ran run : person animal
zurück+gehen* geht ging gegangen = go_back went_back gone_back : person
wandern* = hike : person
"""

LOCATION = """
wohnen = live : person
arbeiten = work : person
sitzen sitzt saß gesessen = sit sat sat : person animal
stehen steht stand gestanden = stand stood stood : person vehicle animal
liegen liegt lag gelegen = lie lay lain : thing person animal text clothes
bleiben* bleibt blieb geblieben = stay : person
warten = wait : person
leben = live : person animal
schlafen schläft schlief geschlafen = sleep slept slept : person animal
spielen = play : person
studieren = study : person
übernachten = spend_the_night spent_the_night spent_the_night : person
parken = park : vehicle
landen* = land : flugzeug hubschrauber
hängen hängt hing gehangen = hang hung hung : thing clothes
"""

# Verbs before a clause with dass, and verbs (and turns) before an infinitive with zu.
SAYING = """
glauben = think thought thought
sagen = say said said
wissen weiß wusste gewusst = know knew known
denken denkt dachte gedacht = think thought thought
hoffen = hope
meinen = think thought thought
hören = hear heard heard
erzählen = say said said
vergessen vergisst vergaß vergessen = forget forgot forgotten
behaupten = claim
vermuten = suspect
fürchten = fear
träumen = dream
bemerken = notice
erklären = explain
antworten = answer
versprechen verspricht versprach versprochen = promise
bezweifeln = doubt
"""
TRYING = """
versuchen = try
hoffen = hope
vergessen vergisst vergaß vergessen = forget forgot forgotten
an+fangen fängt fing gefangen = begin began begun
beschließen beschließt beschloss beschlossen = decide
planen = plan planned planned
versprechen verspricht versprach versprochen = promise
lernen = learn
vor+haben hat hatte gehabt = intend
beginnen beginnt begann begonnen = begin began begun
zögern = hesitate
drohen = threaten
"""

# These take no progressive form.
STATES = "have know love need understand see hear belong like believe trust be find forget lie"
# These particles follow the object (find it again); the others only a pronoun (put it on, put on the coat).
PARTICLES = "again along aloud through back away"
PRONOUN_PARTICLES = "up on"
