"""Counts the readers of access logs by docs/site.md and docs/site-agents.md, slowly and simply: an independent check.

Reads questions as a JSON list from standard input and writes the answers as a JSON list: lines of a key and four
numbers, in order. A question has: log (a path), format (a regular expression with named groups), first and end (days of
the month), humans (claimed or confirmed), crowd (user agents with what, name and class) and sources (hosts and values of
utm_source with name and class), hosts (the site's own).
"""
import json
import re
import sys
from collections import defaultdict
from urllib.parse import parse_qsl, urlsplit

EVIDENCE = {"css", "js", "png", "svg", "woff2"}
OTHER_ASSETS = {"json", "xml", "pdf", "zip", "txt"}


class Row:
    def __init__(self):
        self.readers, self.requests, self.markdown, self.bytes = set(), 0, 0, 0

    def add(self, reader, markdown, size):
        self.readers.add(reader)
        self.requests += 1
        self.markdown += markdown
        self.bytes = -1 if size is None or self.bytes < 0 else self.bytes + size

    def numbers(self):
        return len(self.readers), self.requests, self.markdown, self.bytes


def lines(question):
    form = re.compile(question["format"])
    with open(question["log"], encoding="utf-8") as log:
        for text in log:
            match = form.fullmatch(text.rstrip("\n"))
            assert match, text
            yield match.groupdict()


def kind_of_path(target):
    """The page that a target names, whether it is Markdown, and its extension if it is no page."""
    path = target.split("?")[0]
    name = path.rsplit("/", 1)[-1]
    extension = name.rsplit(".", 1)[-1] if "." in name else ""
    if extension in EVIDENCE | OTHER_ASSETS:
        return None, False, extension
    markdown = extension == "md"
    if extension in ("md", "html"):
        path = path[: -len(extension) - 1]
        if path.endswith("/index"):
            path = path[: -len("/index")]
    return path.rstrip("/") or "/", markdown, ""


def source_of(line, question):
    for name, value in parse_qsl(urlsplit(line["target"]).query):
        if name == "utm_source":
            for s in question["sources"]:
                if value.lower() in s["values"]:
                    return s["name"], s["class"]
            break
    referrer = line["referrer"]
    if referrer in ("", "-"):
        return "none", "none"
    host = urlsplit(referrer).hostname
    if host in question["hosts"]:
        return "site", "site"
    for s in question["sources"]:
        if host in s["hosts"]:
            return s["name"], s["class"]
    return "other", "other"


def answer(question):
    crowd = {c["userAgent"]: c for c in question["crowd"]}
    log = list(lines(question))
    confirmed = set()
    for line in log:
        page, _, extension = kind_of_path(line["target"])
        if int(line["day"]) >= question["end"] or line["method"] != "GET":
            continue
        answered = line["status"] in ("200", "206", "304")
        asset = extension in EVIDENCE and answered
        again = page and line["status"] == "304"
        navigated = page and answered and line.get("mode") == "navigate"
        if asset or again or navigated:
            confirmed.add((line["address"], line["userAgent"]))
    visitors, views = defaultdict(lambda: defaultdict(set)), defaultdict(lambda: defaultdict(int))
    agents, sources = defaultdict(Row), defaultdict(Row)
    missed, networks = [], defaultdict(set)
    for line in log:
        page, markdown, _ = kind_of_path(line["target"])
        if not question["first"] <= int(line["day"]) < question["end"] or line["method"] != "GET" or page is None:
            continue
        reader = line["address"], line["userAgent"]
        who = crowd[line["userAgent"]]
        name, cls = who["name"], who["class"]
        size = None if line.get("bytes") is None else int(line["bytes"])
        if who["what"] == "person":
            audience = "human"
            if markdown:
                name, cls, audience = "unnamed", "coding", "ai"
        elif who["what"] == "ai" or who["what"] == "tool" and markdown:
            audience = "ai"
        else:
            audience = "neither"
        if line["status"] == "404":
            # Only who wants to read guesses: no browser, and no program that gives no name but calls itself a bot.
            if audience == "ai" or who["what"] == "none" and name != "unknown":
                missed.append((page, name, cls, audience, reader, size))
                networks[page].add(line["address"].rsplit(".", 1)[0])
            continue
        if line["status"] not in ("200", "206", "304"):
            continue
        claims = audience == "human"
        if audience in ("human", "ai"):
            for path in ("", page):
                views[path][audience] += 1
        if claims:
            if reader not in confirmed:
                name = "unconfirmed"
                if question["humans"] == "confirmed":
                    audience = "neither"
            source, source_class = source_of(line, question)
            for path in ("", page):
                sources[path, source, source_class, name].add(reader, 0, 0)
        if audience != "neither":
            for path in ("", page):
                visitors[path][audience].add(reader)
        for path in ("", page):
            agents[path, name, cls, audience, "found"].add(reader, markdown, size)
    for page, name, cls, audience, reader, size in missed:
        if len(networks[page]) > 1:
            agents[page, name, cls, audience, "missed"].add(reader, 0, size)
    rows = []
    for path, of in visitors.items():
        rows.append(("visitors %s" % (path or "*"), len(of["human"]), len(of["ai"]), len(of["human"] | of["ai"]), 0))
    for path, of in views.items():
        rows.append(("views %s" % (path or "*"), of["human"], of["ai"], of["human"] + of["ai"], 0))
    for (path, *key), row in agents.items():
        rows.append(("agents %s %s" % (path or "*", " ".join(key)), *row.numbers()))
    for (path, *key), row in sources.items():
        rows.append(("sources %s %s" % (path or "*", " ".join(key)), len(row.readers), row.requests, 0, 0))
    return sorted(" ".join(map(str, row)) for row in rows)


json.dump([answer(q) for q in json.load(sys.stdin)], sys.stdout)
