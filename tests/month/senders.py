"""The ways in which reports come: batches, lines, forms, an app's own requests, a gateway's records, Apple's documents."""

import gzip
import json
import uuid
from datetime import timedelta

import forms
import reports
from servers import Failed

# Reports of each way a day and build.
OF_EACH_WAY = 2


def moment(month):
    return month.clock.now() - timedelta(seconds=month.seed.randrange(1, 3000))


def note(month, tenant, build, id, person="", kind="kscrash"):
    month.sent += 1
    tenant.reports[id.lower()] = {"app": build.app, "version": build.version, "person": person, "kind": kind, "on": month.clock.now().date()}


def make(month, tenant, build, count, kind="kscrash"):
    """Makes reports of people of a tenant, and notes that they are sent."""
    made = []
    for _ in range(count):
        person = month.seed.choice(month.people(tenant))
        if kind == "javascript":
            report = forms.javascript(build, month.seed, moment(month), person)
        else:
            report = reports.crash(build, month.seed, moment(month), person, month.seed.choice(build.bugs))
        note(month, tenant, build, report["report"]["id"], person, kind)
        made.append(report)
    return made


def send_batch(month, tenant, build):
    share = make(month, tenant, build, max(1, int(month.seed.randrange(8, 24) * month.share)))
    post(tenant, json.dumps(share).encode())


def send_lines(month, tenant, build):
    """Sends one report a line, packed."""
    lines = "\n".join(json.dumps(one) for one in make(month, tenant, build, OF_EACH_WAY))
    post(tenant, gzip.compress(lines.encode()))


def send_as_app(month, tenant, build):
    tenant.send_as_app(json.dumps(make(month, tenant, build, OF_EACH_WAY)).encode())


def send_form(month, tenant, build):
    """Sends a form with a part for each report, as KSCrash 2.x does."""
    boundary = uuid.UUID(int=month.seed.getrandbits(128)).hex
    parts = "".join(f'--{boundary}\r\ncontent-disposition: form-data; name="reports"; filename="{number}.json"\r\n'
                    f"content-type: application/json\r\n\r\n{json.dumps(one)}\r\n" for number, one in enumerate(make(month, tenant, build, OF_EACH_WAY)))
    tenant.send_as_app(f"{parts}--{boundary}--\r\n".encode(), f"multipart/form-data; boundary={boundary}")


def send_javascript(month, tenant, build):
    post(tenant, json.dumps(make(month, tenant, build, OF_EACH_WAY, "javascript")).encode())


def send_by_gateway(month, tenant, build):
    """Writes records of the topic as gateways do. Of a tenant that moved, one still writes to the topic of the old cell."""
    from confluent_kafka import Producer

    first = month.product.first
    for one, cell in zip(make(month, tenant, build, OF_EACH_WAY), (first, tenant.cell or first)):
        producer = Producer(month.product.kafka.client(cell.login, "gateway", month.product.authorities) | {"enable.idempotence": True})
        producer.produce(f"{cell.prefix}crash.reports", json.dumps(one).encode(), key=f"{tenant.slug}/{one['report']['id']}",
                         headers={"tenant": tenant.slug})
        if producer.flush(60):
            raise Failed("Kafka did not take the record of a gateway")


def send_logs(month, tenant, build):
    """Sends Apple's logs, one a request. They have their ids in them."""
    for form in (forms.ips, forms.crash_text):
        id, log = form(build, month.seed, moment(month))
        note(month, tenant, build, id, kind=form.__name__)
        post(tenant, log)


def send_metrickit(month, tenant, build):
    """Sends MetricKit's documents. Their ids are made from what they say, and the answer tells them."""
    for form in (forms.metrickit_26, forms.metrickit_27):
        for sent in post(tenant, form(build, month.seed, moment(month)))["reports"]:
            note(month, tenant, build, sent["id"], kind=form.__name__)


def send_otlp(month, tenant, build):
    """Sends a record of OpenTelemetry with Apple's text, which has the id of the report in it."""
    at = moment(month)
    id, text = forms.crash_text(build, month.seed, at)
    note(month, tenant, build, id, kind="otlp")
    attribute = lambda key, value: {"key": key, "value": {"stringValue": value}}
    record = {"timeUnixNano": str(int(at.timestamp() * 1e9)), "severityNumber": 21, "eventName": "device.crash",
              "attributes": [attribute("exception.stacktrace", text.decode())]}
    resource = {"attributes": [attribute("service.name", build.app), attribute("service.version", build.version)]}
    answer = tenant.request("POST", "/otlp/v1/logs", body={"resourceLogs": [{"resource": resource, "scopeLogs": [{"logRecords": [record]}]}]})
    if answer and answer.get("partialSuccess"):
        raise Failed(f"a record of OpenTelemetry was refused: {json.dumps(answer)[:400]}")


def post(tenant, body):
    answer = tenant.request("POST", "/v1/reports", raw=body)
    if answer["refused"]:
        raise Failed(f"reports were refused: {json.dumps(answer['refused'])[:400]}")
    return answer


def send_sessions(month, tenant, build):
    """Sends a crashed session and three others for some people."""
    sessions = []
    for _ in range(4):
        person, at = month.seed.choice(month.people(tenant)), moment(month)
        sessions.append(reports.session(build, month.seed, at, person, crashed=True))
        sessions.extend(reports.session(build, month.seed, at, person, crashed=False) for _ in range(3))
    tenant.request("POST", "/v1/sessions", body=sessions)
    tenant.sent_sessions(build.app, len(sessions), len(sessions) // 4)


def send_kscrash_3(month, tenant, build):
    """Sends a report of KSCrash 3.0 and the summary of its run."""
    person, at = month.seed.choice(month.people(tenant)), moment(month)
    report = forms.kscrash_3(build, month.seed, at, person)
    note(month, tenant, build, report["report"]["id"], person, "kscrash 3")
    tenant.send_as_app(json.dumps(report).encode())
    tenant.send_as_app(json.dumps(forms.run_summary(build, report, at, person)).encode(), below="/runs")
    tenant.sent_sessions(build.app, 1, 1)


WAYS = [send_batch, send_lines, send_as_app, send_form, send_javascript, send_by_gateway, send_logs, send_metrickit, send_otlp, send_sessions, send_kscrash_3]


def send_day(month):
    """Sends reports of the two newest builds of each app, in each way."""
    for tenant in list(month.tenants.values()):
        for app in month.apps[tenant.slug]:
            for build in month.builds[app][-2:]:
                for way in WAYS:
                    way(month, tenant, build)
