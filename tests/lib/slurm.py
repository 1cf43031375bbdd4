"""A Slurm of its own: munged, slurmctld and as many slurmd as nodes, in a directory, on the loopback. Nothing of it is shared with a
Slurm of the host. What is killed here is killed by process id."""

import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import time

import cupel as lib

PROGRAMS = ["munged", "slurmctld", "slurmd", "sbatch", "scontrol", "squeue", "srun", "scancel"]
CONF = """ClusterName=test
SlurmctldHost={host}({address})
SlurmctldPort={port}
CommunicationParameters=NoCtldInAddrAny{narrow}
AuthType=auth/munge
AuthInfo=socket={dir}/munge/sock,cred_expire=5
CredType=cred/munge
SlurmUser=root
SlurmdUser=root
StateSaveLocation={dir}/state
SlurmdSpoolDir={dir}/spool/%n
SlurmctldPidFile={dir}/slurmctld.pid
SlurmdPidFile={dir}/slurmd-%n.pid
SlurmctldLogFile={dir}/slurmctld.log
SlurmdLogFile={dir}/slurmd-%n.log
SlurmdParameters=config_overrides
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/linux
JobCompType=jobcomp/filetxt
JobCompLoc={dir}/jobcomp.txt
AccountingStorageType=accounting_storage/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
DefMemPerCPU=100
SwitchType=switch/none
MpiDefault=none
ReturnToService=2
SlurmdTimeout={node_timeout}
KillWait=3
MinJobAge={job_age}
MaxJobCount=50000
JobRequeue=1
SchedulerType=sched/backfill
SchedulerParameters=bf_interval=1,sched_interval=1,sched_min_interval=0,batch_sched_delay=0
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
PartitionName=main Nodes=ALL Default=YES MaxTime=600 State=UP OverSubscribe=NO PriorityTier=1
PartitionName=urgent Nodes=ALL MaxTime=600 State=UP PriorityTier=10 PreemptMode=OFF
"""
NODE = "NodeName={name} NodeHostname={host} NodeAddr={address} Port={port} CPUs={cpus} RealMemory={memory} State=UNKNOWN\n"


def missing():
    """Why there is none; None if there is."""
    lacking = [name for name in PROGRAMS if not shutil.which(name)]
    if lacking:
        return f"{', '.join(lacking)} not installed"
    return None if address() else f"this host's own name, {host()}, has no address: write it into /etc/hosts"


def host():
    return socket.gethostname().split(".")[0]


def address():
    """A daemon that is not to listen everywhere listens where its host's name leads: 127.0.1.1 where Debian's installer wrote it."""
    try:
        return socket.gethostbyname(host())
    except OSError:
        return None


class Slurm:
    """With it up: sbatch and the like are called with `env`."""

    def __init__(self, place, cpus, nodes=1, memory=1000, job_age=300, node_timeout=30):
        self.dir = pathlib.Path(place)
        self.conf = self.dir / "slurm.conf"
        self.env = {**os.environ, "SLURM_CONF": str(self.conf)}
        self.nodes = [f"n{i + 1}" for i in range(nodes)]
        for name in ("munge", "state", "spool", "jobs"):
            (self.dir / name).mkdir()
        (self.dir / "munge").chmod(0o711)
        self.dir.chmod(0o755)
        key = self.dir / "munge/key"
        key.write_bytes(os.urandom(128))
        key.chmod(0o400)
        where = {"host": host(), "address": address()}
        # srun hears its tasks where the host's name leads, and they call it at 127.0.0.1.
        narrow = ",NoInAddrAny" if where["address"] == "127.0.0.1" else ""
        text = CONF.format(dir=self.dir, port=lib.free_port(), job_age=job_age, node_timeout=node_timeout, narrow=narrow, **where)
        for name in self.nodes:
            text += NODE.format(name=name, port=lib.free_port(), cpus=cpus, memory=memory, **where)
        self.conf.write_text(text, encoding="utf-8")

    def __enter__(self):
        munge = self.dir / "munge"
        try:
            self.call("munged", f"--socket={munge}/sock", f"--key-file={munge}/key", f"--pid-file={munge}/pid",
                      f"--log-file={munge}/log", f"--seed-file={munge}/seed")
            self.start_controller("-c")
            for name in self.nodes:
                self.start_node(name)
            self.until(lambda: all(self.node_state(name) == "IDLE" for name in self.nodes), "idle nodes")
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        for name in self.nodes:
            self.lose_node(name)
        for name in ("slurmctld.pid", "munge/pid"):
            self.stop(name)

    def start_controller(self, *options):
        self.call("slurmctld", *options)

    def start_node(self, name):
        self.call("slurmd", "-N", name)

    def node_state(self, name):
        found = re.search(r" State=(\S+)", self.call("scontrol", "show", "node", "-o", name))
        return found[1] if found else None

    def pid(self, name):
        try:
            return int((self.dir / name).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return None

    def stop(self, name, how=signal.SIGTERM):
        """The daemon of that pid file."""
        pid = self.pid(name)
        if pid and alive(pid):
            os.kill(pid, how)
            self.until(lambda: not alive(pid), f"the end of {name}")

    def stop_controller(self):
        self.stop("slurmctld.pid")

    def lose_node(self, name):
        """As if its power was cut: slurmd, the steps it started, and everything below them."""
        lost = []
        for root in [self.pid(f"slurmd-{name}.pid"), *self._stepds(name)]:
            if root and alive(root):
                lost += [root, *descendants(root)]
        for pid in lost:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        self.until(lambda: not any(alive(pid) for pid in lost), f"the end of {name}")

    def _stepds(self, name):
        """slurmstepd is a session of its own, with the node's spool directory open."""
        for entry in pathlib.Path("/proc").glob("[0-9]*"):
            try:
                if entry.joinpath("comm").read_text(encoding="utf-8").strip() != "slurmstepd":
                    continue
                log = str(self.dir / f"slurmd-{name}.log")
                if any(os.readlink(at) == log for at in entry.joinpath("fd").iterdir()):
                    yield int(entry.name)
            except OSError:
                continue

    def until(self, holds, what, limit_s=120):
        end = time.monotonic() + limit_s
        while not holds():
            if time.monotonic() > end:
                raise RuntimeError(f"slurm: no {what}; see {self.dir}")
            time.sleep(0.02)

    def call(self, *words):
        done = subprocess.run([*map(str, words)], env=self.env, cwd=self.dir / "jobs", capture_output=True, text=True,
                              check=False, stdin=subprocess.DEVNULL)
        if done.returncode:
            raise RuntimeError(f"{words}: {done.stdout}{done.stderr}")
        return done.stdout

    def submit(self, *options):
        """The job's number."""
        return self.call("sbatch", "--parsable", "-o", "/dev/null", *options, "--wrap", "true").strip()

    def job(self, number):
        """What is said of it: {"JobState": "RUNNING", ...}."""
        line = self.call("scontrol", "show", "job", "-o", number)
        return dict(word.split("=", 1) for word in line.split() if "=" in word)

    def jobs(self, *options):
        """The numbers of those that are not over, or as the options say."""
        return self.call("squeue", "-h", "-a", "-o", "%A", *options).split()

    def is_done(self, job):
        return "JobState=COMPLETED" in self.call("scontrol", "show", "job", "-o", job)

    def n_done(self):
        """How many have ended, by the record that is written of each."""
        path = self.dir / "jobcomp.txt"
        return path.read_text(encoding="utf-8").count("JobState=COMPLETED") if path.exists() else 0

    def version(self):
        return re.search(r"[\d.]+", self.call("sbatch", "--version"))[0]


def alive(pid):
    """A killed one is there until it is reaped; that is no life."""
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def descendants(pid):
    """Children, theirs, and so on."""
    found, rest = [], [pid]
    while rest:
        at = rest.pop()
        try:
            children = [int(word) for task in pathlib.Path(f"/proc/{at}/task").iterdir()
                        for word in task.joinpath("children").read_text(encoding="utf-8").split()]
        except OSError:
            continue
        found += children
        rest += children
    return found
