#!/usr/bin/python3
# deadline: 200
"""Task branches through real servers: OpenSSH, git http-backend behind nginx with TLS, gitolite. Each time a push becomes a job,
a worker does it, and the pusher fetches branch and note by the same way."""

import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
import gitservers  # noqa: E402
from e2e import Place  # noqa: E402
from tap import Tap  # noqa: E402
from tasksite import TaskSite, configure_operator  # noqa: E402

ROOT_USER = os.geteuid() == 0
GITOLITE = "/usr/share/gitolite3/gitolite-shell"


def round_trip(t, place, site, way, url, env, user=None):
    """From a push to what the pusher fetches; then a push whose hook is lost; then a deletion."""
    tip = site.commit(f"Translate two over {way}")
    status, text = site.push("HEAD:task/" + way, remote=url, env=env)
    t.ok(status == 0 and f"task/{way}: job " in text and "its result comes to agent/" + way in text, f"{way}: the pusher sees the job", text)
    status, text = site.push("-oissue=Translate two, by option", f"base:task/{way}-option", remote=url, env=env)
    t.contains(text, "queued: Translate two, by option", f"{way}: a push option comes through")
    site.push(f":task/{way}-option", remote=url, env=env)
    t.equal(site.states(f"task/{way}-option"), ["cancelled"], f"{way}: so does a deletion")
    os.rename(os.path.join(site.bare, "hooks/post-receive"), os.path.join(site.bare, "hooks/lost"))
    site.push(f"HEAD:task/{way}-lost", remote=url, env=env)
    os.rename(os.path.join(site.bare, "hooks/lost"), os.path.join(site.bare, "hooks/post-receive"))
    worked = place.agent("work", "--once", "-c", "queue.perRepository=4")
    end = ["done" if ROOT_USER else "parked"]
    t.equal((site.states("task/" + way), site.states(f"task/{way}-lost")), (end, end), f"{way}: worked off, also what was lost", worked.text)
    if not ROOT_USER:
        return
    fetch(site, url, way, env)
    t.equal(site.git("show", "FETCH_HEAD:a.txt"), "one\nzwei", f"{way}: the pusher fetches the result")
    t.contains(site.git("notes", "--ref=agent", "show", tip), "agent: published", f"{way}: and the note")
    if user:
        told = place.artefact("told.json", site.jobs("task/" + way)[0]["run"])
        t.equal(told["message"]["pusher"], user, f"{way}: who pushed is told")


def fetch(site, url, way, env):
    before, site.place.env = site.place.env, {**site.place.env, **env}
    try:
        return site.git("fetch", "-q", url, "refs/heads/agent/" + way, "+refs/notes/agent:refs/notes/agent")
    finally:
        site.place.env = before


def over_https(t, place):
    if gitservers.missing():
        t.skip("HTTPS", "no server: " + ", ".join(gitservers.missing()))
        return
    site = TaskSite(place, "http")
    place.git("config", "http.receivepack", "true", cwd=site.bare)
    with gitservers.HttpsServer(place.path("https"), root=place.dir, user="ann", token="t0ken") as server:
        round_trip(t, place, site, "https", f"https://ann:t0ken@localhost:{server.port}/git/http.git",
                   {"GIT_SSL_CAINFO": server.authority.ca}, "ann")


def ssh_key(place, name):
    gitservers.run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", place.path(name))
    with open(place.path(name) + ".pub") as f:
        return f.read()


def over_ssh(t, place):
    reason = gitservers.no_login() or (gitservers.missing() and "no server: " + ", ".join(gitservers.missing()))
    if reason:
        t.skip("SSH", reason)
        return
    site = TaskSite(place, "ssh")
    with gitservers.SshServer(place.path("sshd"), ssh_key(place, "key")) as server:
        place.write("known", server.known_hosts())
        command = f"ssh -F none -i {place.path('key')} -o UserKnownHostsFile={place.path('known')} -o IdentitiesOnly=yes"
        round_trip(t, place, site, "ssh", f"ssh://{server.user}@localhost:{server.port}{site.bare}", {"GIT_SSH_COMMAND": command})


def over_gitolite(t, place):
    reason = (gitservers.no_login() or (gitservers.missing() and "no server: " + ", ".join(gitservers.missing())) or
              (not os.path.exists(GITOLITE) and "gitolite is not installed"))
    if reason:
        t.skip("gitolite", reason)
        return
    home = place.path("gitolite")
    os.mkdir(home)
    env = {**place.env, "HOME": home}
    line = f'command="HOME={home} {GITOLITE} ann",restrict ' + ssh_key(place, "ann")
    gitservers.run("gitolite", "setup", "-pk", place.path("ann.pub"), env=env)
    with open(os.path.join(home, ".gitolite/conf/gitolite.conf"), "a") as f:
        f.write("\nrepo project\n    RW+ = @all\n")
    gitservers.run("gitolite", "compile", env=env)
    site = TaskSite(place, "gl", install=False)
    site.bare = os.path.join(home, "repositories/project.git")
    place.git("fetch", "-q", site.repo, "base:refs/heads/master", cwd=site.bare)
    place.git("symbolic-ref", "HEAD", "refs/heads/master", cwd=site.bare)
    place.git("config", "receive.advertisePushOptions", "true", cwd=site.bare)
    site.configure(state=place.state)
    site.install()
    configure_operator(place, f"""[publish]
    env = GL_LIBDIR=/usr/share/gitolite3/lib
    env = GL_BINDIR=/usr/share/gitolite3
    env = GL_BYPASS_ACCESS_CHECKS=1
    env = HOME={home}
""")
    with gitservers.SshServer(place.path("gl-sshd"), line) as server:
        place.write("gl-known", server.known_hosts())
        command = f"ssh -F none -i {place.path('ann')} -o UserKnownHostsFile={place.path('gl-known')} -o IdentitiesOnly=yes"
        round_trip(t, place, site, "gitolite", f"ssh://{server.user}@localhost:{server.port}/project", {"GIT_SSH_COMMAND": command}, "ann")


def main():
    with Tap() as t:
        for part in (over_https, over_ssh, over_gitolite):
            with Place() as place:
                os.chmod(place.dir, 0o755)
                configure_operator(place)
                part(t, place)
                t.equal(place.leftovers(), [], "nothing is left of " + part.__name__)


if __name__ == "__main__":
    main()
