"""What a Process Run Crate 0.5, and a Provenance Run Crate 0.5, must be, as far as their profiles and RO-Crate 1.1 say MUST, checked with
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
    additionalType connection encodingFormat endTime environment error exampleOfWork hasPart identifier
    input mainEntity output position programmingLanguage sourceParameter step targetParameter workExample instrument license mentions name
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
    crate.expect({"@id": CRATE} in as_list(descriptor.get("conformsTo")), "the descriptor's conformsTo")
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


# The Provenance Run Crate. Each function is one MUST of https://w3id.org/ro/wfrun/provenance/0.5, or of what it
# extends: https://w3id.org/ro/wfrun/workflow/0.5 and https://w3id.org/workflowhub/workflow-ro-crate/1.0.

def _of_type(crate, kind):
    return [e for e in crate.entities.values() if kind in as_list(e.get("@type"))]


def _refs(entity, key):
    return [ref["@id"] for ref in as_list(entity.get(key, []))]


def _workflow(crate):
    main = _refs(crate.entities["./"], "mainEntity")
    return crate.entities.get(main[0], {}) if len(main) == 1 else {}


def must_root_conforms_to_the_versioned_profiles(crate):
    """provenance/0.5, Dataset: conformsTo MUST reference a CreativeWork of the permalink; SHOULD those it extends."""
    profiles = _refs(crate.entities["./"], "conformsTo")
    for name in ("https://w3id.org/ro/wfrun/provenance/0.5", "https://w3id.org/ro/wfrun/workflow/0.5",
                 "https://w3id.org/ro/wfrun/process/0.5",
                 "https://w3id.org/workflowhub/workflow-ro-crate/1.0"):
        crate.expect(name in profiles and "CreativeWork" in crate.types({"@id": name}), name)


def must_main_entity_is_a_workflow_of_these_types(crate):
    """provenance/0.5, ComputationalWorkflow: @type MUST include File, SoftwareSourceCode, ComputationalWorkflow; with
    `step` also HowTo. workflow/0.5: the crate MUST have such a mainEntity."""
    kinds = set(as_list(_workflow(crate).get("@type", [])))
    crate.expect({"File", "SoftwareSourceCode", "ComputationalWorkflow"} <= kinds, "the main entity")
    crate.expect("step" not in _workflow(crate) or "HowTo" in kinds, "steps, and is no HowTo")


def must_workflow_has_a_language(crate):
    """workflow-ro-crate/1.0: the main workflow MUST refer to its language by programmingLanguage."""
    languages = as_list(_workflow(crate).get("programmingLanguage", []))
    crate.expect(languages and all("ComputerLanguage" in crate.types(ref) for ref in languages), "language")


def must_workflow_has_its_tools_as_parts(crate):
    """provenance/0.5, ComputationalWorkflow: hasPart MUST name the tools."""
    tools = as_list(_workflow(crate).get("hasPart", []))
    crate.expect(tools and all(crate.types(ref) & TOOLS for ref in tools), "the workflow has no tools")


def must_run_of_the_workflow_is_an_action(crate):
    """workflow/0.5: CreateActions of the execution MUST have the main workflow as instrument."""
    runs = [a for a in _of_type(crate, "CreateAction")
            if _refs(a, "instrument") == [_workflow(crate).get("@id")]]
    crate.expect(len(runs) == 1, f"{len(runs)} runs of the workflow")


def must_runs_of_tools_are_actions_with_tools_of_the_workflow(crate):
    """provenance/0.5: tool executions MUST be CreateActions, whose instrument MUST be the tool; hasPart has it."""
    known = set(_refs(_workflow(crate), "hasPart")) | {_workflow(crate).get("@id")}
    for action in _of_type(crate, "CreateAction"):
        crate.expect(set(_refs(action, "instrument")) <= known and "instrument" in action,
                     f"{action['@id']}: its tool is no part of the workflow")


def must_steps_are_named_by_the_workflow_and_name_their_tool(crate):
    """provenance/0.5, HowToStep: workExample MUST name the tool; the workflow MUST reference any HowToStep by step."""
    for step in _of_type(crate, "HowToStep"):
        tools = _refs(step, "workExample")
        crate.expect(len(tools) == 1 and tools[0] in _refs(_workflow(crate), "hasPart"),
                     f"{step['@id']}: no tool")
        crate.expect(step["@id"] in _refs(_workflow(crate), "step"), f"{step['@id']}: of no workflow")


def must_positions_grow_with_what_a_step_needs(crate):
    """provenance/0.5, HowToStep: if S2 needs outputs from S1, S2's position MUST be greater than S1's."""
    step_of = {_refs(s, "workExample")[0]: s for s in _of_type(crate, "HowToStep") if "workExample" in s}
    made = {}
    actions = [a for a in _of_type(crate, "CreateAction") if _refs(a, "instrument")[:1] and
               _refs(a, "instrument")[0] in step_of]
    for action in actions:
        for name in _refs(action, "result"):
            made.setdefault(name, step_of[_refs(action, "instrument")[0]])
    for action in actions:
        own = step_of[_refs(action, "instrument")[0]]
        for name in _refs(action, "object"):
            if name in made and made[name] is not own:
                crate.expect(int(made[name]["position"]) < int(own["position"]),
                             f"{own['@id']} comes before {made[name]['@id']}")


def must_control_actions_name_step_and_runs(crate):
    """provenance/0.5, ControlAction: instrument MUST be the HowToStep, object MUST be CreateActions of its tool."""
    for control in _of_type(crate, "ControlAction"):
        steps, runs = as_list(control.get("instrument", [])), as_list(control.get("object", []))
        crate.expect(len(steps) == 1 and "HowToStep" in crate.types(steps[0]), f"{control['@id']}: step")
        crate.expect(runs and all("CreateAction" in crate.types(ref) for ref in runs),
                     f"{control['@id']}: no runs")


def must_engine_organizes_steps_into_the_run(crate):
    """provenance/0.5, OrganizeAction: instrument MUST be the engine, object MUST be the ControlActions, result MUST be the
    CreateAction of the workflow."""
    controls = {c["@id"] for c in _of_type(crate, "ControlAction")}
    for action in _of_type(crate, "OrganizeAction"):
        engine, result = as_list(action.get("instrument", [])), as_list(action.get("result", []))
        crate.expect(len(engine) == 1 and "SoftwareApplication" in crate.types(engine[0]), "no engine")
        crate.expect(set(_refs(action, "object")) == controls, "not all steps")
        crate.expect(len(result) == 1 and _refs(crate.entities.get(result[0]["@id"], {}), "instrument")
                     == [_workflow(crate).get("@id")], "no run of the workflow")
    crate.expect(bool(controls) == bool(_of_type(crate, "OrganizeAction")), "steps without an engine")


def must_formal_parameters_have_an_additional_type(crate):
    """workflow/0.5, FormalParameter: additionalType MUST be there. Parameter definitions MUST be FormalParameters,
    referenced by input and output."""
    named = set()
    for entity in crate.entities.values():
        for key in ("input", "output"):
            named |= set(_refs(entity, key))
    for name in named:
        crate.expect("FormalParameter" in crate.types({"@id": name}), f"{name} is no parameter")
    for parameter in _of_type(crate, "FormalParameter"):
        crate.expect(parameter.get("additionalType") in ("File", "Dataset", "Text", "Integer", "Float",
                                                         "Boolean", "PropertyValue"), parameter["@id"])
        crate.expect(parameter["@id"] in named, f"{parameter['@id']} is nobody's")


def must_what_fills_a_slot_fills_one_of_a_tool_or_workflow(crate):
    """workflow/0.5: exampleOfWork MUST NOT name a FormalParameter that is not in the interface."""
    for entity in crate.entities.values():
        for name in _refs(entity, "exampleOfWork"):
            crate.expect("FormalParameter" in crate.types({"@id": name}), f"{entity['@id']}: {name}")


def must_connections_join_two_parameters(crate):
    """provenance/0.5, ParameterConnection: sourceParameter and targetParameter are FormalParameters."""
    for connection in _of_type(crate, "ParameterConnection"):
        for key in ("sourceParameter", "targetParameter"):
            crate.expect("FormalParameter" in crate.types(connection.get(key, {})), connection["@id"])


def must_usage_has_a_property_id(crate):
    """provenance/0.5: resourceUsage MUST be PropertyValues with a propertyID; unitCode SHOULD be there."""
    _check_values(crate)
    for action in _of_type(crate, "CreateAction"):
        for name in _refs(action, "resourceUsage"):
            crate.expect(crate.entities.get(name, {}).get("unitCode"), f"{name}: no unit")


def must_not_have_an_error_and_not_have_failed(crate):
    """provenance/0.5, ControlAction and OrganizeAction: error SHOULD NOT be there unless it failed."""
    for kind in ("CreateAction", "ControlAction", "OrganizeAction"):
        for action in _of_type(crate, kind):
            failed = action.get("actionStatus") == "http://schema.org/FailedActionStatus"
            crate.expect(failed or "error" not in action, f"{action['@id']}: an error, and did not fail")


PROVENANCE_MUSTS = [function for name, function in sorted(globals().items()) if name.startswith("must_")]


def check_must(document, must):
    """The faults by one of them."""
    crate = Crate(document)
    must(crate)
    return crate.faults


def check_provenance(document):
    """By all of them, and as a Process Run Crate."""
    return check(document) + [fault for must in PROVENANCE_MUSTS for fault in check_must(document, must)]
