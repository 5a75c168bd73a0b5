"""A bare repository with the hooks of agent, a clone that pushes task branches to it, and the queue behind."""

import json
import os
import subprocess

from e2e import edit, submit


class TaskSite:
    """config: agent.* variables of the bare repository. The model answers each task by making "two" of a.txt "zwei"."""

    def __init__(self, place, name, test="grep zwei a.txt", files=None, install=True, settings="", **config):
        self.place = place
        self.repo = place.repository(files or {"a.txt": "one\ntwo\n"}, name=name, test=test, config=settings)
        self.bare = self.repo + ".git"
        self.git("branch", "base")
        place.git("config", "receive.advertisePushOptions", "true", cwd=self.bare)
        self.configure(state=place.state, **config)
        if install:
            self.install()

    def install(self):
        result = self.place.agent("hook", "install", self.bare)
        if result.status:
            raise RuntimeError(result.text)

    def configure(self, **config):
        for key, value in config.items():
            self.place.git("config", "agent." + key, value, cwd=self.bare)

    def git(self, *args, **more):
        return self.place.git(*args, cwd=self.repo, **more)

    def commit(self, message, files=None):
        for path, content in (files or {}).items():
            self.place.write(os.path.join(self.repo, path), content)
        self.git("add", "-A")
        self.git("commit", "-q", "--allow-empty", "-m", message)
        return self.git("rev-parse", "HEAD")

    def command(self, *args, remote="origin"):
        def whole(word):
            source, colon, target = word.partition(":")
            return f"{source}:refs/heads/{target}" if colon and not target.startswith("refs/") else word
        return ["git", "push", *(a for a in args if a.startswith("-")), remote, *(whole(a) for a in args if not a.startswith("-"))]

    def push(self, *args, env=None, remote="origin"):
        done = subprocess.run(self.command(*args, remote=remote), cwd=self.repo, env={**self.place.env, **(env or {})},
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=100)
        return done.returncode, done.stdout.decode(errors="replace")

    def ref(self, name):
        return self.place.git("rev-parse", "-q", "--verify", name, cwd=self.bare, check=False)

    def note(self, commit):
        return self.place.git("notes", "--ref=agent", "show", commit, cwd=self.bare, check=False)

    def jobs(self, ref=None):
        """Of this repository, oldest first; ref: of that branch."""
        listed = json.loads(self.place.agent("queue", "list", "--all", "--json").out)
        return [job for job in listed if job["repository"] == self.bare and (not ref or job["identity"] == "ref:refs/heads/" + ref)]

    def states(self, ref=None):
        return [job["state"] for job in self.jobs(ref)]


def configure_operator(place, more=""):
    """The operator's file: a replayed model, and limits as this machine has them."""
    model = place.recording([[edit("a.txt", "two", "zwei"), submit("Translate two")]])
    limits = "\tlimits = degraded-ok\n" if place.limits() else ""
    # an ordinary user may have a range of uids, or not: here all of them have none
    uid = "" if os.geteuid() == 0 else "\tuid = shared\n"
    place.write(os.path.join(place.home, ".config/agent/config"), f"[model]\n\tname = {model}\n[jail]\n{limits}{uid}{more}")
