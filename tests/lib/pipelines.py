"""Records of pipelines, written by hand in the form in which cupel writes them, over real runs: for tests of what is
made of such records. Those of the program that writes them are elsewhere."""

import datetime
import hashlib
import json
import shutil


def now():
    time = datetime.datetime.now(datetime.timezone.utc)
    return time.strftime("%Y-%m-%dT%H:%M:%S.") + f"{time.microsecond // 1000:03d}Z"


class Pipeline:
    """One pipeline of `caller`. `steps` is {name: {"needs": [...], "shards": [...], "line": N, ...}}."""

    def __init__(self, caller, steps, name="a pipeline", file=None, **more):
        self.caller, self.steps = caller, steps
        self.id = caller.new_id()
        self.dir = caller.home / "pipelines" / self.id
        self.dir.mkdir(parents=True)
        self.file = file or caller.dir / f"{self.id}.yaml"
        if not file:
            self.file.write_text(f"name: {name}\nsteps: {{}}\n", encoding="utf-8")
        self.started = now()
        self.tasks = {}
        self.record = {
            "id": self.id, "name": name, "file": str(self.file),
            "file_sha256": hashlib.sha256(self.file.read_bytes()).hexdigest(), "quest": None,
            "labels": {}, "parameters": {}, "created": self.started, "previous": None,
            "submitter": "uid 0",
            "steps": [{"name": step, "line": said.get("line", 1 + i),
                       "summary": said.get("summary", f"does {step}"),
                       "runtime": said.get("runtime", "base"), "needs": said.get("needs", []),
                       "scatter": ["shard"] if "shards" in said else None,
                       "shards": len(said["shards"]) if "shards" in said else 1}
                      for i, (step, said) in enumerate(steps.items())], **more}
        self.write("pipeline.json", self.record)
        (self.dir / "steps.jsonl").write_text("")
        self.own()

    def own(self):
        for path in (self.caller.home, self.dir.parent, self.dir, *self.dir.iterdir(), self.file):
            self.caller.own(path)

    def write(self, name, value):
        (self.dir / name).write_text(json.dumps(value, indent=1) + "\n", encoding="utf-8")

    def event(self, step, shard, event, **more):
        line = {"time": more.pop("time", None) or now(), "step": step, "shard": shard, "event": event, **more}
        with open(self.dir / "steps.jsonl", "a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")

    def note(self, step, shard, state, run=None, cause=None, attempts=(), **more):
        self.tasks[step, shard] = {"step": step, "shard": shard, "state": state, "run": run,
                                   "attempts": list(attempts), "cause": cause, **more}

    def run(self, step, *args, shard=None, parts=None):
        """A real run of a step: one more attempt."""
        before = self.tasks.get((step, shard), {"attempts": []})["attempts"]
        shards = self.steps[step].get("shards", [None])
        run_id = f"{self.id}-{step}-{shards.index(shard)}-{len(before) + 1}"
        parts = parts or {"argv": hashlib.sha256(repr(args).encode()).hexdigest()}
        key = hashlib.sha256(json.dumps(parts).encode()).hexdigest()
        self.event(step, shard, "started", run=run_id, attempt=len(before) + 1, key=key, parts=parts)
        result = self.caller.run(*args, id=run_id)
        usage = (result.verdict or {}).get("usage", {})
        use = {"wall_ms": usage.get("wall_usec", 0) // 1000,
               "memory_peak_bytes": usage.get("memory_peak_bytes", 0)}
        self.event(step, shard, "ended", run=run_id, attempt=len(before) + 1, key=key,
                   cause=result.cause, **use)
        self.note(step, shard, "ok" if result.cause == "ok" else "failed", run_id, result.cause,
                  [*before, run_id], key=key, **use)
        return result

    def reuse(self, step, run, shard=None, parts=None):
        self.event(step, shard, "reused", run=run, key="ab" * 32, parts=parts or {}, cause="ok")
        self.note(step, shard, "reused", run, "ok", [], key="ab" * 32)

    def skip(self, step, shard=None):
        self.event(step, shard, "skipped")
        self.note(step, shard, "skipped")

    def finish(self, state=None):
        tasks = list(self.tasks.values())
        counts = {state: sum(t.get("state") == state for t in tasks)
                  for state in ("ok", "reused", "failed", "skipped")}
        counts["total"] = sum(step["shards"] for step in self.record["steps"])
        state = state or ("failed" if counts["failed"] else "ok")
        self.write("result.json", {
            "id": self.id, "state": state, "cause": "ok" if state == "ok" else "step-failed",
            "exit_status": 0 if state == "ok" else 1, "started": self.started, "ended": now(),
            "counts": counts, "steps": tasks})
        self.own()
        return self

    def output(self, run, path):
        return self.caller.run_dir(run) / "outputs" / path

    def remove(self):
        shutil.rmtree(self.dir)
