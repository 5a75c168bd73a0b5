#!/usr/bin/python3
# deadline: 240
"""Signed commits and their attestations: what git and agent verify say of them, of forged ones, and what happens when a key
cannot sign. And the recorded conversation, played again."""
import base64
import hashlib
import json
import os
import re
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from e2e import Place, edit, submit, write  # noqa: E402
from tap import Tap  # noqa: E402

ATTEST = "refs/agent/attest/"


def keygen(place, name, *options):
    path = place.path(name)
    subprocess.run(["ssh-keygen", "-q", *options, "-C", name, "-f", path], check=True)
    return path


def public(path):
    return open(path + ".pub").read().strip()


def pae(payload):
    kind = b"application/vnd.in-toto+json"
    return b"DSSEv1 %d %s %d %s" % (len(kind), kind, len(payload), payload)


def sign(key, namespace, data):
    """The armour."""
    return subprocess.run(["ssh-keygen", "-q", "-Y", "sign", "-n", namespace, "-f", key], input=data, check=True,
                          stdout=subprocess.PIPE).stdout.decode()


def blob_of(armour):
    return "".join(line for line in armour.splitlines() if not line.startswith("-----"))


class Clone:
    """A clone in which anything may be forged."""

    def __init__(self, place, bare, name):
        self.place, self.dir = place, place.path(name)
        place.git("clone", "-q", bare, self.dir)
        place.git("fetch", "-q", "origin", f"{ATTEST}*:{ATTEST}*", cwd=self.dir)

    def git(self, *args, data=None):
        done = subprocess.run(["git", *args], cwd=self.dir, input=data, check=True, stdout=subprocess.PIPE,
                              env={**self.place.env, "GIT_AUTHOR_NAME": "x", "GIT_AUTHOR_EMAIL": "x@example.org",
                                   "GIT_COMMITTER_NAME": "x", "GIT_COMMITTER_EMAIL": "x@example.org"})
        return done.stdout.decode().strip()

    def envelope(self, commit):
        return json.loads(self.git("show", f"{ATTEST}{commit}:attestation.json"))

    def attest(self, commit, envelope):
        text = envelope if isinstance(envelope, bytes) else json.dumps(envelope).encode()
        blob = self.git("hash-object", "-w", "--stdin", data=text)
        tree = self.git("mktree", data=f"100644 blob {blob}\tattestation.json\n".encode())
        self.git("update-ref", ATTEST + commit, self.git("commit-tree", "-m", "x", tree))

    def verify(self, commit, *options):
        result = self.place.agent("verify", commit, "--json", *options, cwd=self.dir)
        checks = {}
        if result.out.startswith("{"):
            checks = {check["name"]: check["state"] for check in json.loads(result.out)["checks"]}
        return result, checks


def what_is_not_here(t, place, origin, commit, signed):
    """The next step that is told, carried out, leads on."""
    def clone(name, *how):
        place.git("clone", "-q", *how, "file://" + origin, place.path(name))
        return place.path(name)

    def verify(where, rev):
        result = place.agent("verify", rev, *signed, cwd=where)
        nexts = re.findall(r"^agent: next: (git fetch [^,\n]*)(?:, then agent verify (.*))?$", result.err, re.M)
        return result, *(nexts[0] if len(nexts) == 1 else ("", ""))

    def follow(where, rev, fetch, then):
        result, command, other = verify(where, rev)
        t.equal((result.status, command, other), (2, fetch, then), f"not here: {rev}", result.text)
        place.git(*command.split()[1:], cwd=where)
        result, command, other = verify(where, other or rev)
        t.equal(result.status, 1, f"{rev}, fetched, is there", result.text)
        return command

    place.git("branch", "-f", "agent/one", commit, cwd=origin)
    place.git("update-ref", ATTEST + commit, commit, cwd=origin)
    narrow = clone("narrow", "--single-branch")
    command = follow(narrow, "agent/one", "git fetch origin agent/one:refs/remotes/origin/agent/one", "origin/agent/one")
    t.equal(command, f"git fetch origin {ATTEST}{commit}:{ATTEST}{commit}", "then its attestation is missing")
    place.git(*command.split()[1:], cwd=narrow)
    t.equal(place.git("rev-parse", ATTEST + commit, cwd=narrow), commit, "which that fetches")
    follow(clone("narrow2", "--single-branch", "-o", "up"), "up/agent/one", "git fetch up agent/one:refs/remotes/up/agent/one", "")
    follow(clone("narrow3", "--single-branch", "-o", "up"), "refs/remotes/up/agent/one",
           "git fetch up agent/one:refs/remotes/up/agent/one", "")
    follow(clone("narrow4", "--single-branch"), commit, f"git fetch origin {commit}", "")
    place.git("remote", "add", "other", "/nowhere", cwd=narrow)
    for rev, wanted in (("nowhere", "git fetch origin nowhere:"), ("other/x", "git fetch other x:"), ("abc1234", ""), ("$(id)", ""), ("a b", "")):
        result, command, _ = verify(narrow, rev)
        t.ok(result.status == 2 and (command.startswith(wanted) if wanted else not command), f"not here: {rev}", result.text)
    place.git("config", "remote.$(id).url", "/nowhere", cwd=narrow)
    place.git("remote", "remove", "origin", cwd=narrow)
    result, command, _ = verify(narrow, "nowhere")
    t.ok(result.status == 2 and not command and "git fetch brings" in result.err, "where nobody knows from where, none is named", result.text)


with Tap() as t, Place() as place:
    repo = place.repository({"a.txt": "one\n", "b/c.bin": "x\n"}, test="true")
    bare = repo + ".git"
    keys = {"ed25519": keygen(place, "ed25519", "-t", "ed25519", "-N", ""), "rsa": keygen(place, "rsa", "-t", "rsa", "-N", ""),
            "ecdsa": keygen(place, "ecdsa", "-t", "ecdsa", "-N", ""), "pem": keygen(place, "pem", "-t", "rsa", "-m", "PEM", "-N", "")}
    stranger = keygen(place, "stranger", "-t", "ed25519", "-N", "")
    allowed = place.write(place.path("allowed"), "".join(
        f'agent@localhost namespaces="git,agent-attest" {public(key)}\n' for key in keys.values()))
    signed = ["--allowed-signers", allowed]
    model = place.recording([[edit("a.txt", "one", "two"), write("new.sh", "#!/bin/sh\n"), submit("Two")]])

    # ---- each kind of key: git and agent verify agree ----
    commits = {}
    for name, key in keys.items():
        result = place.agent("run", "-m", f"two {name}", "--model", model, "-c", f"publish.signingKey=file:{key}", cwd=repo)
        t.equal(result.status, 0, f"{name}: a run with a signing key publishes", result.text)
        receipt = place.artefact("publish/receipt.json")
        commits[name] = receipt["commit"]
        print_of = subprocess.run(["ssh-keygen", "-lf", key + ".pub"], stdout=subprocess.PIPE, check=True).stdout.decode().split()[1]
        t.equal(receipt.get("signed_by"), print_of, f"{name}: the receipt names the key")
        t.equal(place.git("rev-parse", ATTEST + commits[name], cwd=bare) != "", True, f"{name}: its attestation is pushed with it")
    clone = Clone(place, bare, "clone")
    for name, commit in commits.items():
        shown = subprocess.run(["git", "-c", f"gpg.ssh.allowedSignersFile={allowed}", "verify-commit", commit], cwd=clone.dir,
                               capture_output=True, env=place.env, check=False)
        t.equal(shown.returncode, 0, f"{name}: git verifies the commit", shown.stderr.decode())
        result, checks = clone.verify(commit, *signed)
        t.equal((result.status, set(checks.values()), len(checks)), (0, {"holds"}, 7), f"{name}: everything holds in any clone",
                result.text)
    commit, other = commits["ed25519"], commits["rsa"]
    result = place.agent("verify", "origin/agent/two-ed25519", *signed, cwd=clone.dir)
    t.equal(result.status, 0, "a branch names the commit too", result.text)
    t.contains(result.out, "says     test command           true", "what only the signer says is told as that")
    statement = json.loads(base64.b64decode(clone.envelope(commit)["payload"]))
    t.equal((statement["_type"], statement["predicateType"], statement["predicate"]["result"]),
            ("https://in-toto.io/Statement/v1", "https://in-toto.io/attestation/test-result/v0.1", "PASSED"),
            "the statement is in-toto's, about a test result")
    t.equal([entry["digest"] for entry in statement["subject"]],
            [{"gitCommit": commit}, {"gitTree": place.git("rev-parse", commit + "^{tree}", cwd=bare)}],
            "about the commit and its tree")
    patch = open(os.path.join(place.run_dir(), "round-1/patch.diff"), "rb").read()
    t.equal(json.loads(base64.b64decode(clone.envelope(commits["pem"])["payload"]))["predicate"]["agent"]["patch"]["sha256"],
            hashlib.sha256(patch).hexdigest(), "with the patch's digest")

    # ---- who signed is unknown, or somebody else ----
    result, checks = clone.verify(commit)
    t.equal((result.status, checks["commit signature"], checks["patch"]), (1, "unknown", "holds"),
            "without allowed signers the rest is checked and 1 is the end", result.text)
    nobody = place.write(place.path("nobody"), f'agent@localhost {public(stranger)}\n')
    result, checks = clone.verify(commit, "--allowed-signers", nobody)
    t.equal((result.status, checks["commit signature"]), (1, "fails"), "a key that is not allowed fails", result.text)
    only_git = place.write(place.path("only-git"), f'agent@localhost namespaces="git" {public(keys["ed25519"])}\n')
    result, checks = clone.verify(commit, "--allowed-signers", only_git)
    t.equal((checks["commit signature"], checks["attestation signature"]), ("holds", "fails"),
            "a key counts only in the namespaces that it is allowed in", result.text)
    late = place.write(place.path("late"), f'agent@localhost valid-after="20990101" {public(keys["ed25519"])}\n')
    result, checks = clone.verify(commit, "--allowed-signers", late)
    t.equal(checks["commit signature"], "fails", "and only at the time that it is allowed for", result.text)

    # ---- forgeries ----
    forged = Clone(place, bare, "forged")
    good = forged.envelope(commit)
    payload = base64.b64decode(good["payload"])

    def with_statement(change, key=None):
        altered = json.loads(payload)
        change(altered)
        text = json.dumps(altered).encode()
        envelope = {**good, "payload": base64.b64encode(text).decode()}
        if key:
            envelope["signatures"] = [{"keyid": "", "sig": blob_of(sign(key, "agent-attest", pae(text)))}]
        return envelope

    def failed(what, envelope, check, commit=commit, state="fails"):
        forged.attest(commit, envelope)
        result, checks = forged.verify(commit, *signed)
        t.equal((result.status, checks.get(check)), (1, state), f"forged: {what}", result.text)

    failed("a statement changed after it was signed", with_statement(lambda s: s["predicate"].update(result="PASSED ")),
           "attestation signature")
    failed("another commit's attestation", forged.envelope(other), "subject")
    failed("signed by somebody else", with_statement(lambda s: None, stranger), "attestation signature")
    failed("by somebody else: not the commit's key", with_statement(lambda s: None, stranger), "one key")
    key = keys["ed25519"]
    failed("a failed test", with_statement(lambda s: s["predicate"].update(result="FAILED"), key), "result")
    failed("another patch", with_statement(lambda s: s["predicate"]["agent"].update(patch={"sha256": "0" * 64}), key), "patch")
    failed("another base", with_statement(lambda s: s["predicate"]["agent"].update(base_commit="0" * 40), key), "base")
    failed("another kind of predicate", with_statement(lambda s: s.update(predicateType="https://example.org/x"), key), "subject")
    failed("no subject", with_statement(lambda s: s.update(subject=[]), key), "subject")
    failed("a subject of another type", with_statement(lambda s: s.update(subject={"gitCommit": commit}), key), "subject")
    failed("a signature in git's namespace", {**good, "signatures": [
        {"keyid": "", "sig": blob_of(sign(key, "git", pae(payload)))}]}, "attestation signature")
    failed("two signatures", {**good, "signatures": good["signatures"] * 2}, "attestation")
    failed("no signature", {**good, "signatures": []}, "attestation")
    failed("no base64", {**good, "payload": "!"}, "attestation")
    failed("another payload type", {**good, "payloadType": "text/plain"}, "attestation")
    failed("no JSON", b"\xff\x00{", "attestation")
    failed("an empty file", b"", "attestation")
    failed("a deep one", b"[" * 100000, "attestation")
    forged.attest(commit, good)
    result, checks = forged.verify(commit, *signed)
    t.equal(result.status, 0, "the genuine one holds again", result.text)
    forged.git("branch", "-f", "agent/one", commit)
    shallow = place.path("shallow")
    place.git("clone", "-q", "--depth=1", "-b", "agent/one", "file://" + forged.dir, shallow)
    place.git("fetch", "-q", "origin", f"{ATTEST}{commit}:{ATTEST}{commit}", cwd=shallow)
    result = place.agent("verify", commit, *signed, cwd=shallow)
    t.ok(result.status == 1 and "next: git fetch --unshallow origin\n" in result.err, "a base that is not here", result.text)
    place.git("fetch", "-q", "--unshallow", "origin", cwd=shallow)
    t.equal(place.agent("verify", commit, *signed, cwd=shallow).status, 0, "that fetches it")
    forged.git("update-ref", "-d", ATTEST + commit)
    result, checks = forged.verify(commit, *signed)
    t.equal((result.status, checks), (1, {"commit signature": "holds", "attestation": "fails"}), "none at all is told", result.text)
    result = place.agent("verify", commit, *signed, cwd=forged.dir)
    t.contains(result.err, f"next: git fetch origin {ATTEST}{commit}:{ATTEST}{commit}\n", "with how to get it")
    what_is_not_here(t, place, forged.dir, commit, signed)

    def recommit(change):
        """The commit with its raw bytes changed."""
        raw = subprocess.run(["git", "cat-file", "commit", commit], cwd=forged.dir, stdout=subprocess.PIPE, check=True).stdout
        return forged.git("hash-object", "-t", "commit", "-w", "--stdin", data=change(raw))

    for what, change in {
            "its message": lambda raw: raw.replace(b"\n\nTwo", b"\n\nToo"),
            "its author": lambda raw: raw.replace(b"author agent", b"author somebody"),
            "its tree": lambda raw: raw.replace(raw[5:45], b"4b825dc642cb6eb9a060e54bf8d69288fbee4904", 1)}.items():
        altered = recommit(change)
        result, checks = forged.verify(altered, *signed)
        t.equal((result.status, checks["commit signature"]), (1, "fails"), f"a commit changed after it was signed: {what}", result.text)
    twice = recommit(lambda raw: raw.replace(b"gpgsig ", b"gpgsig x\ngpgsig ", 1))
    result, checks = forged.verify(twice, *signed)
    t.equal((result.status, checks["commit signature"]), (1, "fails"), "two signatures on a commit", result.text)
    result, checks = forged.verify("HEAD", *signed)
    t.equal((result.status, checks["commit signature"]), (1, "fails"), "a commit that is not signed", result.text)
    t.ok("git fetch" not in result.err and "next: verify a commit that agent has published with publish.signingKey set" in result.err,
         "has no attestation that could be fetched", result.text)
    for rev in (commit[:7], commit[:20].upper()):
        result, checks = forged.verify(rev, *signed)
        t.equal((result.status, checks.get("commit signature")), (1, "holds"), f"an abbreviated id is that commit: {len(rev)} digits", result.text)
    result = place.agent("verify", "nothing", *signed, cwd=forged.dir)
    t.equal(result.status, 2, "a commit that is not there is a usage error", result.text)
    result = place.agent("verify", commit, "--allowed-signers", "/nonexistent", cwd=forged.dir)
    t.equal(result.status, 2, "so is a file of signers that is not there", result.text)

    # ---- hostile attestations, commits and clones ----
    def with_payload(text):
        """Signed by the right key, whatever it is."""
        return {**good, "payload": base64.b64encode(text).decode(),
                "signatures": [{"keyid": "", "sig": blob_of(sign(key, "agent-attest", pae(text)))}]}

    raw_good = json.dumps(good).encode()
    failed("a key twice in the envelope", raw_good[:-1] + b', "payload": "e30="}', "attestation")
    failed("a NUL behind it", raw_good + b"\0", "attestation")
    failed("a second document behind it", raw_good + b"{}", "attestation")
    failed("4 MiB of blanks", raw_good + b" " * (4 << 20), "attestation")
    for what, text in (("a key twice", payload[:-1] + b', "_type": "https://in-toto.io/Statement/v1"}'), ("no UTF-8", b'{"_type": "\xff\xfe"}'),
                       ("a NUL", b'{"_type": "a\x00"}'), ("a deep one", b'{"a":' * 50000), ("nothing", b""), ("a list", b"[]" * 2)):
        failed(f"the signer's statement with {what}", with_payload(text), "statement")
    failed("a statement with lists and numbers for words", with_payload(json.dumps(
        {"_type": [], "subject": [[], 1, {"digest": []}, {"digest": {"gitCommit": {}}}], "predicateType": 1,
         "predicate": {"result": {}, "agent": [], "configuration": 1}}).encode()), "subject")
    good_blob = forged.git("rev-parse", f"{ATTEST}{commit}:attestation.json")
    for what, line in (("a symbolic link", f"120000 blob {good_blob}"), ("a directory", f"040000 tree {forged.git('rev-parse', 'HEAD^{tree}')}"),
                       ("a submodule", "160000 commit " + "1" * 40)):
        tree = forged.git("mktree", "--missing", data=f"{line}\tattestation.json\n".encode())
        forged.git("update-ref", ATTEST + commit, forged.git("commit-tree", "-m", "x", tree))
        result, checks = forged.verify(commit, *signed)
        t.equal((result.status, checks.get("attestation")), (1, "fails"), f"forged: the attestation is {what}", result.text)
    forged.git("update-ref", ATTEST + commit, good_blob)
    result, checks = forged.verify(commit, *signed)
    t.equal((result.status, checks.get("attestation")), (1, "fails"), "forged: its ref names a blob", result.text)
    forged.attest(commit, good)

    for what, change in {
            "a second parent": lambda raw: raw.replace(b"\nauthor", b"\nparent " + commit.encode() + b"\nauthor", 1),
            "no parent": lambda raw: b"\n".join(line for line in raw.split(b"\n") if not line.startswith(b"parent ")),
            "an encoding": lambda raw: raw.replace(b"\ngpgsig", b"\nencoding UTF-7\ngpgsig", 1),
            "a signature for SHA-256": lambda raw: raw.replace(b"\ngpgsig", b"\ngpgsig-sha256 x\ngpgsig", 1),
            "a merged tag": lambda raw: raw.replace(b"\ngpgsig", b"\nmergetag object x\n x\ngpgsig", 1),
            "a header that nobody knows": lambda raw: raw.replace(b"\ngpgsig", b"\nx y\ngpgsig", 1),
            "its signature in the message": lambda raw: raw.replace(b"gpgsig ", b"x ", 1) + b"\ngpgsig -----BEGIN SSH SIGNATURE-----\n"}.items():
        oid = forged.git("hash-object", "-t", "commit", "-w", "--stdin", "--literally", data=change(
            subprocess.run(["git", "cat-file", "commit", commit], cwd=forged.dir, stdout=subprocess.PIPE, check=True).stdout))
        forged.attest(oid, good)
        result, checks = forged.verify(oid, *signed)
        t.equal((result.status, checks.get("commit signature")), (1, "fails"), f"a signed commit with {what}", result.text)

    altered = recommit(lambda raw: raw.replace(b"\n\nTwo", b"\n\nToo"))
    forged.git("replace", altered, commit)
    result, checks = forged.verify(altered, *signed)
    t.equal((result.status, checks["commit signature"]), (1, "fails"), "a replace ref makes no good commit of a bad one", result.text)
    touched = place.path("touched")
    program = place.write(place.path("touch.sh"), f"#!/bin/sh\ntouch {touched}\n", 0o755)
    forged.git("replace", commit, forged.git("rev-parse", "HEAD^0"))
    place.write(os.path.join(forged.dir, ".git/info/grafts"), f"{commit}\n")
    for setting in ("core.fsmonitor", "gpg.program", "gpg.ssh.program", "core.alternateRefsCommand", "core.pager", "gpg.ssh.defaultKeyCommand"):
        forged.git("config", setting, program)
    forged.git("config", "gpg.ssh.allowedSignersFile", nobody)
    forged.git("config", "include.path", place.write(place.path("included"), f"[core]\n\tfsmonitor = {program}\n"))
    result, checks = forged.verify(commit, *signed)
    t.equal((result.status, set(checks.values())), (0, {"holds"}), "nor do replace refs, grafts and configuration hide a good one", result.text)
    t.ok(not os.path.exists(touched), "and none of the clone's programs ran")
    for word in ("-x", "--all", "", "a..b", "HEAD@{1}", "refs/heads/\x1b[31m", "../x", commit[:39] + "g", "@{u}", "x" * 5000):
        result = place.agent("verify", "--", word, *signed[:0], cwd=forged.dir)
        t.ok(result.status == 2 and "\x1b" not in result.out + result.err, f"{word[:20]!r} is no commit", result.text)
    for name in ("-I", "-Overify-time=20200101", "a\x1b[31mb", "*"):
        odd = place.write(place.path("odd"), f"{name} {public(key)}\n")
        result, checks = forged.verify(commit, "--allowed-signers", odd)
        t.ok(checks.get("commit signature") in ("holds", "fails") and "\x1b" not in result.out + result.err, f"a signer named {name!r} does no harm", result.text)

    # ---- keys that cannot sign: nothing is pushed, the run is saved ----
    locked = keygen(place, "locked", "-t", "ed25519", "-N", "secret")
    before = place.git("for-each-ref", cwd=bare)
    for what, source, words in (("with a passphrase", f"file:{locked}", "passphrase"),
                                ("a public key", f"file:{locked}.pub", "public SSH key"),
                                ("no key", f"file:{place.write(place.path('junk'), 'junk', 0o600)}", "not an SSH private key")):
        os.chmod(source[5:], 0o600)
        result = place.agent("run", "-m", f"cannot {what}", "--model", model, "-c", f"publish.signingKey={source}", cwd=repo)
        t.ok(result.status in (2, 4), f"a signing key {what} ends the run", result.text)
        t.contains(result.err, words, "and says why")
        t.equal(place.git("for-each-ref", cwd=bare), before, "nothing is pushed")
    number = place.runs()[-1]
    result = place.agent("resume", number, "-c", f"publish.signingKey=file:{keys['ecdsa']}", cwd=repo)
    t.equal(result.status, 0, "with a good key the run goes on", result.text)
    result = place.agent("run", "-m", "none", "--model", model, "-c", "publish.signingKey=env:NO_SUCH_KEY", cwd=repo)
    t.equal(result.status, 2, "a source that is not there is told before the model is asked", result.text)
    t.equal(place.runs()[-1], number, "it was not asked, and no run is left of it")

    # ---- both or none ----
    place.hook(repo, "update", '#!/bin/sh\ncase $1 in refs/agent/*) echo "No attestations here."; exit 1;; esac\n')
    before = place.git("for-each-ref", cwd=bare)
    result = place.agent("run", "-m", "both", "--model", model, "-c", f"publish.signingKey=file:{keys['ed25519']}", cwd=repo)
    t.equal(result.status, 1, "a server that refuses the attestation refuses both", result.text)
    t.contains(result.err, "No attestations here.", "its words are shown")
    t.equal(place.git("for-each-ref", cwd=bare), before, "neither is there")
    number = place.runs()[-1]
    result = place.agent("resume", number, "-c", "publish.attest=no", cwd=repo)
    t.equal(result.status, 0, "publish.attest = no pushes the signed commit alone", result.text)
    t.contains(place.git("cat-file", "commit", "agent/both", cwd=bare), "gpgsig -----BEGIN SSH SIGNATURE-----", "it is signed")
    os.unlink(f"{repo}.git/hooks/update")

    # ---- the same issue from a machine without our records ----
    elsewhere = {"AGENT_STATE_DIR": place.path("elsewhere")}
    later = place.recording([[edit("a.txt", "one", "three"), submit("Three")]], name="later")
    tip = place.git("rev-parse", "agent/both", cwd=bare)
    result = place.agent("run", "-m", "both", "--model", later, cwd=repo, env=elsewhere)
    t.equal((result.status, place.git("rev-parse", "agent/both", cwd=bare)), (1, tip), "without the key its branch is a stranger's there",
            result.text)
    result = place.agent("run", "-m", "both", "--model", later, "-c", f"publish.signingKey=file:{keys['ed25519']}", cwd=repo,
                         env=elsewhere)
    t.equal((result.status, place.git("show", "agent/both:a.txt", cwd=bare)), (0, "three"), "with the key it is ours and moved",
            result.text)
    result = place.agent("run", "-m", "both, again", "--branch", "agent/both", "--model", later, "-c",
                         f"publish.signingKey=file:{keys['ed25519']}", cwd=repo, env=elsewhere)
    t.equal(result.status, 1, "but not for another issue", result.text)
    t.contains(result.err, "made for another issue", "which is said")

    # ---- the conversation again ----
    rounds = place.recording([[write("check", "red\n"), submit("First")], [write("check", "green\n"), submit("Second")]], name="rounds")
    result = place.agent("run", "-m", "Two rounds", "--model", rounds, "--test", "grep -q green check", "--dry-run", cwd=repo)
    t.equal(result.status, 0, "a run of two rounds", result.text)
    number = place.runs()[-1]
    before = place.runs()
    result = place.agent("replay", number)
    trees = [place.artefact(f"round-{i}/tree.json", number)["tree"] for i in (1, 2)]
    t.equal((result.status, result.out.split("\n")[:2]), (0, [f"round {i}  same tree {tree}" for i, tree in enumerate(trees, 1)]),
            "agent replay makes the same trees", result.text)
    t.equal((place.runs(), os.listdir(os.path.join(place.state, "tmp"))), (before, []), "and leaves nothing behind")
    path = os.path.join(place.run_dir(number), "round-2/conversation.jsonl")
    text = open(path).read()
    os.chmod(path, 0o600)
    with open(path, "w") as f:
        f.write(text.replace("green\\\\n", "yellow\\\\n").replace("green\\n", "yellow\\n"))
    result = place.agent("replay", number)
    t.equal(result.status, 1, "another conversation makes another tree, and 1 says so", result.text)
