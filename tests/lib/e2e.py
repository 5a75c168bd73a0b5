"""What whole-run tests share: a place of their own, repositories, recordings, the agent itself, and a
look at what a run leaves.

    with Place() as place:
        repo = place.repository({"a.txt": "1\\n", ...}, test="make check")
        result = place.agent("run", "-m", "text", "--model", place.recording([...]), cwd=repo)

Everything lies below one temporary directory; nothing of the caller's configuration is used.
"""

import itertools
import json
import os
import shutil
import signal
import subprocess
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.environ.get("BUILD") or os.path.join(ROOT, "build")
AGENT = os.path.join(BUILD, "agent")
ZERO = "0" * 40
TIMEOUT = 100  # seconds for one agent


def wait_for(condition, seconds=30, what="something"):
    """Polls; the deadline is a failure, not a measurement."""
    limit = time.monotonic() + seconds
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > limit:
            raise TimeoutError(f"waited {seconds} s for {what}")
        time.sleep(0.005)


class Result:
    def __init__(self, args, status, out, err):
        self.args, self.status, self.out, self.err = args, status, out, err

    @property
    def text(self):
        return f"$ agent {' '.join(self.args)}\nstatus {self.status}\nstdout:\n{self.out}\nstderr:\n{self.err}"

    @property
    def events(self):
        return [json.loads(line) for line in self.out.splitlines() if line.startswith("{")]


class Place:
    """A temporary directory with a state directory, a home and an environment of its own."""

    def __init__(self, parent=None):
        self.dir = os.path.realpath(tempfile.mkdtemp(prefix="agent-e2e-", dir=parent))
        self.state = os.path.join(self.dir, "state")
        self.home = os.path.join(self.dir, "home")
        os.mkdir(self.home)
        self.env = {
            "PATH": os.environ.get("PATH", "/usr/bin:/bin"),
            "HOME": self.home,
            "LC_ALL": "C.UTF-8",
            "AGENT_STATE_DIR": self.state,
            "GIT_CONFIG_GLOBAL": "/dev/null",
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_AUTHOR_NAME": "A Person", "GIT_AUTHOR_EMAIL": "person@example.com",
            "GIT_COMMITTER_NAME": "A Person", "GIT_COMMITTER_EMAIL": "person@example.com",
        }
        for name in ("ASAN_OPTIONS", "UBSAN_OPTIONS", "TMPDIR"):
            if name in os.environ:
                self.env[name] = os.environ[name]
        # A second of its own for each command of git: two commits that are made in one second of one tree, parent
        # and message would be one commit.
        self.seconds = itertools.count(int(time.time()) - 3600)
        self.children = []
        self.groups = orphan_cgroups()
        self._limits = None

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        for child in self.children:
            if child.poll() is None:
                child.kill()
                child.wait()
        if os.environ.get("KEEP"):
            print("# kept", self.dir)
        else:
            remove_tree(self.dir)

    def path(self, *names):
        return os.path.join(self.dir, *names)

    # ---- files and repositories --------------------------------------------------------------------

    def write(self, path, content, mode=None):
        path = path if os.path.isabs(path) else self.path(path)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as f:
            f.write(content if isinstance(content, bytes) else content.encode())
        if mode is not None:
            os.chmod(path, mode)
        return path

    def git(self, *args, cwd=None, check=True, text=True, input=""):
        date = f"{next(self.seconds)} +0000"
        env = {"GIT_AUTHOR_DATE": date, "GIT_COMMITTER_DATE": date, **self.env}
        done = subprocess.run(("git",) + args, cwd=cwd or self.dir, env=env, input=input if text else input.encode(),
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=text)
        if check and done.returncode:
            raise RuntimeError(f"git {args}: {done.stderr}")
        return done.stdout.strip() if text else done.stdout

    def repository(self, files, name="repo", test=None, config="", remote=True):
        """A repository with one commit, and a bare remote "NAME.git" beside it."""
        repo = self.path(name)
        for path, content in files.items():
            self.write(os.path.join(repo, path), content, 0o755 if path.endswith(".sh") else None)
        if test is not None:
            config = f'[test]\n\tcommand = "{test}"\n' + config
        if config:
            self.write(os.path.join(repo, ".agent/config"), config)
        self.git("init", "-q", "-b", "main", repo)
        self.git("add", "-A", cwd=repo)
        self.git("commit", "-q", "--allow-empty", "-m", "Begin", cwd=repo)
        if remote:
            self.git("init", "-q", "--bare", "-b", "main", repo + ".git")
            self.git("remote", "add", "origin", repo + ".git", cwd=repo)
            self.git("push", "-q", "origin", "main", cwd=repo)
        return repo

    def hook(self, repo, name, script):
        return self.write(f"{repo}.git/hooks/{name}", script, 0o755)

    def branches(self, repo):
        """{branch: commit} of the remote, without main."""
        out = self.git("for-each-ref", "--format=%(refname) %(objectname)", cwd=repo + ".git")
        refs = dict(line.split() for line in out.splitlines())
        return {k: v for k, v in refs.items() if k != "refs/heads/main"}

    # ---- the model -------------------------------------------------------------------------------------

    def recording(self, rounds, name="recording.jsonl"):
        """rounds: a list of lists of (tool, input). A submit is added to each. Returns "replay:FILE"."""
        lines, number = [], 0
        for i, calls in enumerate(rounds, 1):
            calls = list(calls)
            if not calls or calls[-1][0] != "submit":
                calls.append(("submit", {"title": "Change something", "body": f"As asked, try {i}."}))
            blocks = []
            for tool, arguments in calls:
                number += 1
                blocks.append({"type": "tool_call", "id": f"c{number}", "name": tool, "input": arguments})
            lines.append({"role": "assistant", "round": i, "stop": "tools", "content": blocks,
                          "usage": {"input": 100, "output": 10, "cache_read": 0, "cache_write": 0}})
        path = self.write(name, "".join(json.dumps(line) + "\n" for line in lines))
        return "replay:" + path

    def model_server(self, rounds, modes=None, tls=False, key=None):
        """tests/lib/modelserver.py with one answer a round. modes: {round: [mode, ...]}."""
        return ModelServer(self, rounds, modes or {}, tls, key)

    # ---- the agent ---------------------------------------------------------------------------------------

    def limits(self):
        """[] or the option that goes on without a cgroup, where none can be had."""
        if self._limits is None:
            probe = self.repository({"a": "1\n"}, name="probe", remote=False)
            self._limits = []
            first = self.agent("jail", "--", "true", cwd=probe, limits=False)
            if first.status == 125:
                self._limits = ["--limits", "degraded-ok"]
                second = self.agent("jail", "--", "true", cwd=probe)
                if second.status != 0:
                    raise RuntimeError("no jail at all here:\n" + second.text)
        return self._limits

    def command(self, args, limits=True):
        args = [str(a) for a in args]
        if limits and args[0] in ("run", "jail"):
            args = args[:1] + self.limits() + args[1:]
        elif limits and args[0] == "resume" and self.limits():
            args = args[:1] + ["-c", "jail.limits=degraded-ok"] + args[1:]
        return [AGENT] + args

    def agent(self, *args, cwd=None, env=None, stdin=None, limits=True, timeout=TIMEOUT):
        command = self.command(args, limits)
        child = subprocess.Popen(command, cwd=cwd or self.dir, env={**self.env, **(env or {})},
                                 stdin=subprocess.PIPE if stdin is not None else subprocess.DEVNULL,
                                 stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True)
        try:
            out, err = child.communicate(stdin.encode() if stdin is not None else None, timeout)
        except subprocess.TimeoutExpired:
            child.kill()
            out, err = child.communicate()
            err += b"\n(killed by the test: no end after %d s)" % timeout
        return Result(command[1:], child.returncode, out.decode(errors="replace"), err.decode(errors="replace"))

    def start(self, *args, cwd=None, env=None, limits=True, before=()):
        """In the background, its own session, behind the words of a command; output goes to files."""
        command = [*before, *self.command(args, limits)]
        out = open(self.path("background.out"), "wb")
        err = open(self.path("background.err"), "wb")
        child = subprocess.Popen(command, cwd=cwd or self.dir, env={**self.env, **(env or {})},
                                 stdin=subprocess.DEVNULL, stdout=out, stderr=err, start_new_session=True)
        out.close()
        err.close()
        self.children.append(child)
        return child

    def background_text(self):
        return "".join(open(self.path("background." + which), errors="replace").read()
                       for which in ("out", "err"))

    # ---- what a run leaves ----------------------------------------------------------------------------------

    def runs(self):
        """Ids, oldest first (those of one second are in no order by name)."""
        top = os.path.join(self.state, "runs")

        def begun(run):
            try:
                return os.stat(os.path.join(top, run, "issue.md")).st_mtime_ns
            except OSError:
                return 0
        try:
            return sorted(os.listdir(top), key=lambda run: (begun(run), run))
        except OSError:
            return []

    def run_dir(self, run=None):
        return os.path.join(self.state, "runs", run or self.runs()[-1])

    def artefact(self, name, run=None):
        with open(os.path.join(self.run_dir(run), name), encoding="utf-8") as f:
            return json.load(f)

    def events(self, run=None):
        try:
            with open(os.path.join(self.run_dir(run), "events.jsonl"), encoding="utf-8") as f:
                return [json.loads(line) for line in f if line.endswith("\n")]
        except (OSError, IndexError):
            return []

    def wait_stage(self, child, stage):
        """Until the run in the background is in that stage."""
        def there():
            if child.poll() is not None:
                raise RuntimeError(f"ended with {child.returncode} before {stage}: {self.background_text()}")
            begun = [e for e in self.events() if e.get("event") == "stage"]
            return begun and begun[-1].get("stage") == stage
        wait_for(there, 60, f"stage {stage}")

    def leftovers(self):
        """Processes, mounts and control groups that belong to this place or to nobody alive; empty when all is well.
        What is just ending gets a moment."""
        limit = time.monotonic() + 5
        while True:
            found = self._leftovers()
            if not found or time.monotonic() > limit:
                return found
            time.sleep(0.02)

    def _leftovers(self):
        found = []
        for pid, words, cwd in processes():
            if self.dir in words or cwd.startswith(self.dir):
                if pid not in [child.pid for child in self.children]:
                    found.append(f"process {pid}: {words[:200]} in {cwd}")
        with open("/proc/self/mountinfo") as f:
            found += ["mount " + line.strip() for line in f if self.dir in line]
        return found + [group for group in orphan_cgroups() if group not in self.groups]


class ModelServer:
    """A model server on loopback, in a process of its own. url, ca, requests()."""

    def __init__(self, place, rounds, modes, tls, key):
        steps = []
        for i, calls in enumerate(rounds, 1):
            calls = list(calls)
            if not calls or calls[-1][0] != "submit":
                calls.append(("submit", {"title": "Change something"}))
            steps.append({"text": f"Round {i}.", "modes": modes.get(i, ["ok"]),
                          "calls": [{"name": tool, "input": arguments} for tool, arguments in calls]})
        number = len(os.listdir(place.dir))
        self.log = place.path(f"model-{number}.log")
        words = ["--script", place.write(f"model-{number}.json", json.dumps(steps)), "--log", self.log]
        self.ca = None
        if tls:
            words += ["--tls-dir", place.path(f"model-{number}.tls")]
            self.ca = place.path(f"model-{number}.tls/ca.pem")
        if key:
            words += ["--key", key]
        self.child = subprocess.Popen([os.path.join(ROOT, "tests/lib/modelserver.py")] + words, stdin=subprocess.DEVNULL,
                                      stdout=subprocess.PIPE, text=True, start_new_session=True)
        place.children.append(self.child)
        self.port = int(self.child.stdout.readline())
        self.url = f"{'https' if tls else 'http'}://{'localhost' if tls else '127.0.0.1'}:{self.port}/v1"

    def requests(self):
        try:
            with open(self.log, encoding="utf-8") as f:
                return [json.loads(line) for line in f if line.endswith("\n")]
        except OSError:
            return []

    def stop(self):
        self.child.kill()
        self.child.wait()
        self.child.stdout.close()


def processes():
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        try:
            with open(f"/proc/{name}/cmdline", "rb") as f:
                words = f.read().replace(b"\0", b" ").decode(errors="replace")
            with open(f"/proc/{name}/stat") as f:
                if f.read().rpartition(")")[2].split()[0] == "Z":
                    continue
            try:
                cwd = os.readlink(f"/proc/{name}/cwd")
            except OSError:
                cwd = ""
        except OSError:
            continue
        if int(name) != os.getpid():
            yield int(name), words, cwd


def agent_processes():
    """Every process on this machine that runs one of our programs from this build."""
    found = []
    for pid, words, _ in processes():
        try:
            exe = os.readlink(f"/proc/{pid}/exe")
        except OSError:
            continue
        if os.path.dirname(exe.split(" (deleted)")[0]) == os.path.realpath(BUILD):
            found.append((pid, words))
    return found


def descendants(pid):
    children = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open(f"/proc/{name}/stat") as f:
                    parent = int(f.read().rpartition(")")[2].split()[1])
            except OSError:
                continue
            children.setdefault(parent, []).append(int(name))
    found, todo = [], [pid]
    while todo:
        for child in children.get(todo.pop(), []):
            found.append(child)
            todo.append(child)
    return found


def orphan_cgroups():
    """Control groups of jails (agent-PID-…) whose process is gone."""
    found = []
    for top, dirs, _ in os.walk("/sys/fs/cgroup"):
        for name in dirs:
            words = name.split("-")
            if words[0] == "agent" and len(words) > 1 and not os.path.exists("/proc/" + words[1]):
                found.append("cgroup " + os.path.join(top, name))
    return found


def remove_tree(path):
    def again(function, name, _):
        for target in (os.path.dirname(name), name):
            if not (target + "/").startswith(path.rstrip("/") + "/"):
                continue  # what lies above is not ours
            try:
                os.chmod(target, 0o700)
            except OSError:
                pass
        try:
            function(name)
        except OSError:
            pass
    shutil.rmtree(path, onerror=again)


def digest_tree(path):
    """{relative name: (kind, mode, bytes)} of everything below path, for before-and-after comparisons."""
    seen = {}
    for top, dirs, files in os.walk(path):
        for name in dirs + files:
            full = os.path.join(top, name)
            info = os.lstat(full)
            if os.path.islink(full):
                content = os.readlink(full)
            elif os.path.isfile(full):
                with open(full, "rb") as f:
                    content = f.read()
            else:
                content = None
            seen[os.path.relpath(full, path)] = (oct(info.st_mode), content)
    return seen


def differences(before, after):
    names = sorted(set(before) | set(after))
    return [n for n in names if before.get(n) != after.get(n)]


def interrupt(child, number=signal.SIGINT):
    """As a terminal does: the whole foreground process group."""
    os.killpg(child.pid, number)


# ---- calls of the model's tools, for recordings (pipeline/model/tools.h) ----------------------------------

def edit(path, old, new):
    return ("edit_file", {"path": path, "old": old, "new": new})


def write(path, content):
    return ("write_file", {"path": path, "content": content})


def delete(path):
    return ("delete_file", {"path": path})


def submit(title, body=""):
    return ("submit", {"title": title, "body": body})
