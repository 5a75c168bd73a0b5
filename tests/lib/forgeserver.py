"""A forge for tests: the parts of the APIs of GitHub, GitLab and Gitea that agent-forge uses, with the members that their
answers have, on a loopback address. Standard library only.

    with Forge("github", token="…") as forge:
        forge.issue(42, "Sum is wrong", "text", author="ann", writes=True)
        forge.comment(42, "text", author="bob")
        … forge.api, forge.requests, forge.pulls, forge.comments …
        forge.next.append((403, {"X-RateLimit-Remaining": "0"}, {"message": "API rate limit exceeded"}))
"""

import http.server
import json
import re
import threading
import urllib.parse

OWNER, REPO = "octo", "sums"
TOKEN_HEADER = {"github": ("Authorization", "Bearer "), "gitlab": ("PRIVATE-TOKEN", ""), "gitea": ("Authorization", "token ")}
PREFIX = {"github": "", "gitlab": "/api/v4", "gitea": "/api/v1"}


class Forge:
    def __init__(self, kind, token=None, page=100):
        self.kind, self.token, self.page = kind, token, page
        self.issues, self.comments, self.pulls, self.writers = {}, [], [], set()
        self.requests, self.next, self.ids = [], [], 1000
        self.knows_self = True
        self.labels = ["bug", "maintenance"]
        self.forks = {}  # GitLab: {"OWNER/REPO": number}

    def __enter__(self):
        forge = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *args):
                pass

            def handle_any(self):
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                status, headers, answer = forge.answer(self.command, self.path, dict(self.headers), body)
                data = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
                self.send_response(status)
                for name, value in {"Content-Type": "application/json", "Content-Length": str(len(data)), **headers}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(data)

            do_GET = do_POST = do_PATCH = do_PUT = handle_any

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.api = f"http://127.0.0.1:{self.server.server_address[1]}{PREFIX[self.kind]}"
        return self

    def __exit__(self, *exc):
        self.server.shutdown()
        self.server.server_close()

    @property
    def options(self):
        return ["-c", f"forge.kind={self.kind}", "-c", f"forge.api={self.api}", "-c",
                f"forge.repository=https://{self.kind}.example/{OWNER}/{REPO}.git"]

    # ---- what is there ----

    def issue(self, number, title, body, author="ann", writes=True, state="open", labels=(), locked=False):
        if writes:
            self.writers.add(author)
        self.issues[number] = {"title": title, "body": body, "author": author, "state": state, "labels": list(labels),
                               "locked": locked}

    def comment(self, number, body, author, writes=False, system=False):
        if writes:
            self.writers.add(author)
        self.ids += 1
        self.comments.append({"id": self.ids, "issue": number, "body": body, "author": author, "system": system})

    # ---- as each forge says it ----

    def show_issue(self, number):
        issue = self.issues[number]
        page = f"https://{self.kind}.example/{OWNER}/{REPO}/issues/{number}"
        if self.kind == "gitlab":
            return {"id": 9000 + number, "iid": number, "project_id": 7, "title": issue["title"], "description": issue["body"],
                    "state": "opened" if issue["state"] == "open" else "closed", "labels": issue["labels"],
                    "author": {"id": 1, "username": issue["author"], "name": "A. N."}, "updated_at": "2026-11-01T10:00:00.000Z",
                    "web_url": page.replace("/issues", "/-/issues"), "discussion_locked": issue["locked"] or None,
                    "confidential": False}
        shown = {"id": 9000 + number, "number": number, "title": issue["title"], "body": issue["body"], "state": issue["state"],
                 "labels": [{"id": 1, "name": name, "color": "ededed"} for name in issue["labels"]],
                 "user": {"login": issue["author"], "id": 1}, "updated_at": "2026-11-01T10:00:00Z", "html_url": page,
                 "comments": len([c for c in self.comments if c["issue"] == number]), "assignees": []}
        if self.kind == "github":
            shown.update(locked=issue["locked"], active_lock_reason=None, author_association=self.association(issue["author"]))
        else:
            shown.update(is_locked=issue["locked"])
        return shown

    def association(self, author):
        return "MEMBER" if author in self.writers else "NONE"

    def show_comment(self, comment):
        if self.kind == "gitlab":
            return {"id": comment["id"], "body": comment["body"], "author": {"username": comment["author"]},
                    "system": comment["system"], "noteable_type": "Issue"}
        shown = {"id": comment["id"], "body": comment["body"], "user": {"login": comment["author"], "type": "Bot" if comment["author"] == "bot" else "User"},
                 "created_at": "2026-11-01T10:00:00Z"}
        if self.kind == "github":
            shown["author_association"] = self.association(comment["author"])
        return shown

    def stranger_pull(self, head, body):
        """A pull request that somebody made from a repository of their own."""
        self.ids += 1
        self.pulls.append({"number": self.ids, "title": "Mine", "body": body, "head": head, "base": "main", "draft": False,
                           "from": "mallory"})

    def show_pull(self, pull):
        owner = pull.get("from", OWNER)
        if self.kind == "gitlab":
            return {"source_project_id": 7 if owner == OWNER else self.forks.get(owner, 8), "target_project_id": 7, "iid": pull["number"], "title": pull["title"], "description": pull["body"], "state": {"open": "opened"}.get(pull.get("state", "open"), pull.get("state")),
                    "source_branch": pull["head"], "target_branch": pull["base"],
                    "web_url": f"https://gitlab.example/{OWNER}/{REPO}/-/merge_requests/{pull['number']}"}
        return {"number": pull["number"], "title": pull["title"], "body": pull["body"], "state": "open" if pull.get("state", "open") == "open" else "closed", "merged": pull.get("state") == "merged",
                "draft": pull["draft"], "head": {"ref": pull["head"], "repo": {"full_name": f"{owner}/{REPO}"}}, "base": {"ref": pull["base"]},
                "html_url": f"https://{self.kind}.example/{OWNER}/{REPO}/pull/{pull['number']}"}

    # ---- answering ----

    def pages(self, entries, query):
        size = min(int((query.get("per_page") or query.get("limit") or ["30"])[0]), self.page)
        number = int((query.get("page") or ["1"])[0])
        part = entries[(number - 1) * size:number * size]
        more = number * size < len(entries)
        return 200, {"Link": f'<{self.api}/x?page={number + 1}>; rel="next"'} if more else {}, part

    def answer(self, method, target, headers, body):
        url = urllib.parse.urlsplit(target)
        path, query = url.path, urllib.parse.parse_qs(url.query)
        name, prefix = TOKEN_HEADER[self.kind]
        given = headers.get(name, "")
        given = given[len(prefix):] if given.startswith(prefix) else None
        self.requests.append({"method": method, "path": path, "query": query, "token": given, "host": headers.get("Host"),
                              "body": json.loads(body) if body else None, "headers": headers})
        if self.next:
            return self.next.pop(0)
        if self.token and given != self.token:
            return 401, {}, {"message": "Bad credentials"}
        if path == PREFIX[self.kind] + "/user":
            return (200, {}, {"username": "bot", "login": "bot"}) if self.knows_self else (403, {}, {"message": "not for you"})
        for fork, number in self.forks.items():
            there = PREFIX[self.kind] + "/projects/" + fork.replace("/", "%2F")
            if path == there:
                return 200, {}, {"id": number, "default_branch": "other"}
            if path == there + "/merge_requests" and method == "POST":
                made = json.loads(body)
                if made.get("target_project_id") != 7:
                    return 422, {}, {"message": ["target_project_id is missing"]}
                answer = self.pull(method, query, made, True)
                self.pulls[-1]["from"] = fork
                return answer[:2] + (self.show_pull(self.pulls[-1]),)
        root = PREFIX[self.kind] + (f"/projects/{OWNER}%2F{REPO}" if self.kind == "gitlab" else f"/repos/{OWNER}/{REPO}")
        if not path.startswith(root):
            return 404, {}, {"message": "Not Found"}
        return self.route(method, path[len(root):], query, json.loads(body) if body else None)

    def route(self, method, path, query, body):
        lab = self.kind == "gitlab"
        if path == "":
            return 200, {}, {"id": 7, "default_branch": "trunk"}
        if path in ("/members/all", "/collaborators"):
            entries = [{"username": n, "access_level": 30} if lab else {"login": n, "permissions": {"push": True}}
                       for n in sorted(self.writers)]
            return self.pages(entries, query)
        if match := re.fullmatch(r"/issues/(\d+)", path):
            number = int(match[1])
            return (200, {}, self.show_issue(number)) if number in self.issues else (404, {}, {"message": "Not Found"})
        if match := re.fullmatch(r"/issues/(\d+)/(comments|notes)", path):
            if method == "POST":
                self.comment(int(match[1]), body["body"], "bot", True)
                return 201, {}, self.show_comment(self.comments[-1])
            return self.pages([self.show_comment(c) for c in self.comments if c["issue"] == int(match[1])], query)
        if match := re.fullmatch(r"/issues/(?:comments|\d+/notes)/(\d+)", path):
            comment = next(c for c in self.comments if c["id"] == int(match[1]))
            comment["body"] = body["body"]
            return 200, {}, self.show_comment(comment)
        if path in ("/pulls", "/merge_requests"):
            return self.pull(method, query, body, lab)
        if path == "/labels":
            return self.pages([{"id": 100 + i, "name": name} for i, name in enumerate(self.labels)], query)
        if match := re.fullmatch(r"/issues/(\d+)/labels", path):
            pull = next(p for p in self.pulls if p["number"] == int(match[1]))
            pull["labels"] = [self.labels[i - 100] if isinstance(i, int) else i for i in body["labels"]]
            return 200, {}, [{"name": name} for name in pull["labels"]]
        if match := re.fullmatch(r"/(?:pulls|merge_requests)/(\d+)", path):
            pull = next(p for p in self.pulls if p["number"] == int(match[1]))
            if method == "GET":
                return 200, {}, self.show_pull(pull)
            if "add_labels" in body:
                pull["labels"] = body["add_labels"].split(",")
                return 200, {}, self.show_pull(pull)
            pull["title"], pull["body"] = body["title"], body["description" if lab else "body"]
            return 200, {}, self.show_pull(pull)
        return 404, {}, {"message": "Not Found"}

    def pull(self, method, query, body, lab):
        if method == "GET":
            head = (query.get("source_branch") or query.get("head") or [None])[0]
            owner, name = head.split(":") if head and ":" in head else (None, head)
            return self.pages([self.show_pull(p) for p in self.pulls if p.get("state", "open") == "open" and (self.kind == "gitea" or not head or
                               (p["head"] == name and owner in (None, p.get("from", OWNER))))], query)
        self.ids += 1
        self.pulls.append({"number": self.ids, "title": body["title"], "body": body["description" if lab else "body"],
                           "head": body["source_branch" if lab else "head"], "base": body["target_branch" if lab else "base"],
                           "draft": body.get("draft", False)})
        return 201, {}, self.show_pull(self.pulls[-1])
