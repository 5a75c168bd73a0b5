"""The examples of hooks/maintain, as agent maintain runs them."""
import os
import shutil

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
EXAMPLES = os.path.join(ROOT, "hooks", "maintain")


def names():
    return sorted(name[:-3] for name in os.listdir(EXAMPLES) if name.endswith(".md"))


def repository(place, name, files, test="true"):
    """A repository that has this example as its one task, and what it works on."""
    with open(os.path.join(EXAMPLES, name + ".md"), encoding="utf-8") as f:
        text = f.read()
    return place.repository({**files, f".agent/maintain/{name}.md": text}, name=name, test=test)


def maintain(place, repo, name, *options):
    limits = ["--limits", "degraded-ok"] if place.limits() else []
    return place.agent("maintain", name, "--again", *limits, "-c", "maintain.fromRepository=yes", *options, cwd=repo, timeout=300)


def result_of(place, repo, name, path):
    """The file's text in what was published, or None."""
    refs = place.branches(repo)
    commit = refs.get(f"refs/heads/agent/maintain-{name}")
    return commit and place.git("show", f"{commit}:{path}", cwd=repo + ".git")


def toolchain(program):
    """-c options that admit the toolchain of a program to the jail; None where it is not here."""
    found = shutil.which(program)
    if not found:
        return None
    real = os.path.realpath(found)
    if program == "cargo" and os.path.basename(real) == "rustup":
        chains = os.path.expanduser("~/.rustup/toolchains")
        real = next((os.path.join(chains, name, "bin", "cargo") for name in sorted(os.listdir(chains))), None) \
            if os.path.isdir(chains) else None
        if not real or not os.path.exists(real):
            return None
    place = os.path.dirname(os.path.dirname(real))
    return [] if place in ("/usr", "/usr/local", "/") else ["-c", f"jail.path={place}"]
