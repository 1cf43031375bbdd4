"""What a Process Run Crate 0.5 must be, as far as its profile and RO-Crate 1.1 say MUST, checked with
nothing but the standard library. Terms are taken from the contexts by name: none is fetched."""

import datetime
import hashlib
import re
import urllib.parse

CRATE = "https://w3id.org/ro/crate/1.1"
PROFILE = "https://w3id.org/ro/wfrun/process/0.5"
CONTEXTS = [f"{CRATE}/context", "https://w3id.org/ro/terms/workflow-run/context"]
# Of schema.org, which the first context has, and of the second: those that a crate may use here.
KNOWN = set("""@id @type about actionStatus agent author conformsTo contentSize datePublished description
    encodingFormat endTime environment error hasPart identifier instrument license mentions name
    object propertyID publisher resourceUsage result sha256 softwareRequirements softwareVersion
    startTime subjectOf unitCode url value version""".split())
TOOLS = {"SoftwareApplication", "SoftwareSourceCode", "ComputationalWorkflow"}
AGENTS = {"Person", "Organization", "SoftwareApplication"}
TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{3})?\+00:00")
URI = re.compile(r"(?:[A-Za-z0-9\-._~/:#?\[\]@!$&'()*+,;=]|%[0-9A-F]{2})+")


class Crate:
    """The graph by id, and what is wrong with it."""

    def __init__(self, document):
        self.document = document
        self.faults = []
        self.entities = {}
        for entity in document["@graph"]:
            self.expect(entity.get("@id") not in self.entities, f"twice: {entity.get('@id')}")
            self.entities[entity.get("@id")] = entity

    def expect(self, holds, fault):
        if not holds:
            self.faults.append(fault)
        return holds

    def types(self, reference):
        return set(as_list(self.entities.get(reference.get("@id"), {}).get("@type", [])))


def as_list(value):
    return value if isinstance(value, list) else [value]


def _references(entity):
    for key, value in entity.items():
        for item in as_list(value):
            if isinstance(item, dict):
                yield key, item


def _check_flat(crate):
    own = crate.document["@context"][2] if len(crate.document["@context"]) > 2 else {}
    crate.expect(crate.document["@context"][:2] == CONTEXTS, "other contexts")
    crate.expect(all(URI.fullmatch(term) and "://" in term for term in own.values()), "own terms")
    for name, entity in crate.entities.items():
        crate.expect(isinstance(name, str) and URI.fullmatch(name), f"no URI: {name!r}")
        crate.expect(entity.get("@type"), f"no type: {name}")
        for key in entity:
            crate.expect(key in KNOWN or key in own, f"{name}: unknown term {key}")
        for key, reference in _references(entity):
            if crate.expect(set(reference) == {"@id"}, f"{name}: {key} is nested"):
                crate.expect(reference["@id"] in crate.entities or reference["@id"] == CRATE,
                             f"{name}: {key} leads nowhere: {reference['@id']}")


def _check_root(crate):
    descriptor = crate.entities.get("ro-crate-metadata.json", {})
    crate.expect(descriptor.get("conformsTo") == {"@id": CRATE}, "the descriptor's conformsTo")
    crate.expect(descriptor.get("about") == {"@id": "./"}, "the descriptor's about")
    root = crate.entities.get("./", {})
    crate.expect("Dataset" in as_list(root.get("@type")), "the root is no Dataset")
    for key in ("name", "description", "datePublished", "license"):
        crate.expect(root.get(key), f"the root has no {key}")
    profiles = [ref["@id"] for ref in as_list(root.get("conformsTo", [])) if isinstance(ref, dict)]
    if crate.expect(PROFILE in profiles, "the root conforms to no profile"):
        crate.expect("CreativeWork" in crate.types({"@id": PROFILE}), "the profile is no CreativeWork")
    try:
        datetime.datetime.fromisoformat(root.get("datePublished", ""))
    except ValueError:
        crate.faults.append("datePublished is no date")


def _check_parts(crate):
    reached, ahead = set(), ["./"]
    while ahead:
        name = ahead.pop()
        if name not in reached:
            reached.add(name)
            ahead += [ref["@id"] for ref in as_list(crate.entities.get(name, {}).get("hasPart", []))]
    for name, entity in crate.entities.items():
        if {"File", "Dataset"} & set(as_list(entity.get("@type"))):
            crate.expect(name in reached, f"no part of the root: {name}")


def _check_values(crate):
    for name, entity in crate.entities.items():
        for value in as_list(entity.get("resourceUsage", [])):
            crate.expect("PropertyValue" in crate.types(value), f"{name}: usage is no PropertyValue")
            crate.expect(crate.entities.get(value["@id"], {}).get("propertyID"),
                         f"{value['@id']} has no propertyID")


def _check_actions(crate):
    actions = [e for e in crate.entities.values() if "CreateAction" in as_list(e.get("@type"))]
    crate.expect(actions, "there is no action")
    mentioned = [ref["@id"] for ref in as_list(crate.entities["./"].get("mentions", []))]
    for action in actions:
        name = action["@id"]
        tools = as_list(action.get("instrument", []))
        crate.expect(tools and all(crate.types(tool) & TOOLS for tool in tools),
                     f"{name}: no instrument")
        crate.expect(name in mentioned, f"{name} is not mentioned")
        crate.expect(crate.types(action.get("agent", {})) & AGENTS, f"{name}: no agent")
        for key in ("startTime", "endTime"):
            crate.expect(key not in action or TIME.fullmatch(action[key]), f"{name}: {key}")
        status = action.get("actionStatus")
        crate.expect(status in ("http://schema.org/CompletedActionStatus",
                                "http://schema.org/FailedActionStatus"), f"{name}: status {status}")
        crate.expect("error" not in action or status.endswith("/FailedActionStatus"),
                     f"{name}: an error, and did not fail")


def check(document):
    """The faults; none if it is what it must be."""
    crate = Crate(document)
    _check_flat(crate)
    _check_root(crate)
    if "./" in crate.entities:
        _check_parts(crate)
        _check_values(crate)
        _check_actions(crate)
    return crate.faults


def check_files(document, read):
    """Each file in the crate is there with its size and digest. `read` takes the path as bytes."""
    faults = []
    for entity in document["@graph"]:
        name = entity["@id"]
        if "File" not in as_list(entity["@type"]) or "://" in name:
            continue
        content = read(urllib.parse.unquote_to_bytes(name))
        if content is None:
            faults.append(f"not there: {name}")
        elif (str(len(content)), hashlib.sha256(content).hexdigest()) != (
                entity["contentSize"], entity["sha256"]):
            faults.append(f"not what it should be: {name}")
    return faults
