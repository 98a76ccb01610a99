"""Writes golden.json: when some cron expressions fire in forty zones over five years, by
an implementation that shares nothing with Duly's. Run it for each release of the zone
data, with the Python package tzdata of that release and no zone data of the machine:

    PYTHONTZPATH= python3 golden.py > golden.json

It walks from quarter of an hour to quarter of an hour, asks zoneinfo what the clocks of
the zone show, and compares that with each expression, which is written as a function
besides. So a time in an overlap fires twice and one in a gap not at all: what Duly calls
elapsed time.
"""

import calendar
import datetime as dt
import hashlib
import json
import zoneinfo

import tzdata

ZONES = """
Africa/Cairo Africa/Casablanca Africa/Johannesburg America/Anchorage America/Asuncion America/Bogota America/Chicago
America/Halifax America/Havana America/Los_Angeles America/New_York America/Nuuk America/Santiago America/Sao_Paulo
America/St_Johns America/Vancouver Antarctica/Troll Asia/Beirut Asia/Dubai Asia/Gaza Asia/Jerusalem Asia/Kathmandu
Asia/Kolkata Asia/Pyongyang Asia/Tehran Asia/Tokyo Atlantic/Azores Australia/Adelaide Australia/Eucla Australia/Lord_Howe
Australia/Sydney Europe/Chisinau Europe/Dublin Europe/London Europe/Moscow Europe/Paris Pacific/Apia Pacific/Auckland
Pacific/Chatham Pacific/Kiritimati
""".split()

CRONS = {
    "0 2 * * *": lambda t: t.hour == 2 and t.minute == 0,
    "30 1 * * *": lambda t: t.hour == 1 and t.minute == 30,
    "*/15 0-3,23 * * *": lambda t: t.hour in (0, 1, 2, 3, 23),
    "0 */3 * * MON-FRI": lambda t: t.minute == 0 and t.hour % 3 == 0 and t.isoweekday() <= 5,
    "45 23 L * *": lambda t: (t.hour, t.minute) == (23, 45) and t.day == calendar.monthrange(t.year, t.month)[1],
    "0 0 1-7 * SUN": lambda t: (t.hour, t.minute) == (0, 0) and (t.day <= 7 or t.isoweekday() == 7),
    "15 2 * 3,10,11 SUN#1": lambda t: (t.hour, t.minute) == (2, 15) and t.month in (3, 10, 11) and t.isoweekday() == 7 and t.day <= 7,
    "30 0,1,2 29 2 *": lambda t: t.minute == 30 and t.hour <= 2 and (t.month, t.day) == (2, 29),
}

FROM = dt.datetime(2024, 1, 1, tzinfo=dt.timezone.utc)
UNTIL = dt.datetime(2029, 1, 1, tzinfo=dt.timezone.utc)
STEP = dt.timedelta(minutes=15)


def fires(zone):
    """For each expression, how often it fires and a hash of the instants, one a line."""
    tz = zoneinfo.ZoneInfo(zone)
    counts = {c: 0 for c in CRONS}
    hashes = {c: hashlib.sha256() for c in CRONS}
    at = FROM
    while at < UNTIL:
        local = at.astimezone(tz)
        for cron, fits in CRONS.items():
            if fits(local):
                counts[cron] += 1
                hashes[cron].update(at.strftime("%Y-%m-%dT%H:%M:%SZ\n").encode())
        at += STEP
    return {c: {"count": counts[c], "sha256": hashes[c].hexdigest()} for c in CRONS}


print(json.dumps({
    "release": tzdata.IANA_VERSION,
    "from": FROM.strftime("%Y-%m-%dT%H:%M:%SZ"),
    "until": UNTIL.strftime("%Y-%m-%dT%H:%M:%SZ"),
    "zones": {zone: fires(zone) for zone in ZONES},
}, indent=1))
