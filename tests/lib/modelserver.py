#!/usr/bin/python3
"""A model server for tests: speaks the Anthropic Messages format (…/messages) and the OpenAI Chat
Completions format (…/chat/completions), streaming, with tool calls, on a loopback address. Standard
library only.

usage: modelserver.py [--script FILE] [--mode MODE[*N]]... [--port N] [--host ADDRESS]
                      [--tls-dir DIR [--tls-name NAME] | --tls CERT KEY] [--key KEY] [--log FILE]

Prints its port on one line, then serves until it is killed or its parent is gone. Within a Python test:

    with modelserver.Server(key=…, tls_dir=…) as server:
        server.script(["silence", modelserver.answer_calls([{"name": …, "input": {…}}]), answer_text("done")])
        … server.url, server.port, server.requests (as in the log) …

where strings are modes, each for one request, and the rest are the steps of the conversation, in order.

--script FILE   JSON list of steps, one an answer of the model:
                {"text": "…", "calls": [{"name": "edit_file", "input": {…}, "id": "c1"?}], "stop": "…"?,
                 "usage": {"input": N, "output": N, "cache_read": N, "cache_write": N} | null,
                 "modes": ["cut", "ok"]?, "delay_ms": N?}
                Every member may be left out. The step is chosen by the number of assistant messages in the
                request, so a call that is tried again gets the same step, and a resumed run the next one.
                "calls" may hold "raw": "text" in place of "input": arguments that are no JSON. "modes" are
                taken one a request to that step, the last one for good. The last step serves all later ones.
                Without a script every answer is the text "ok".
--mode M[*N]    misbehave so on the next N requests (without *N: on all); may be given several times, they
                are used up in order, before a step's own modes.
--key KEY       401 unless the key comes in x-api-key or Authorization: Bearer.
--tls CERT KEY  TLS with these PEM files.
--tls-dir DIR   TLS with a certificate of an authority that is made in DIR by openssl(1) when it is not there:
                DIR/ca.pem is the bundle to trust. --tls-name: its host name (default localhost, always also
                127.0.0.1).
--log FILE      one JSON line a request: {"n","method","path","version","headers","body","key_in":[…]}; the key is
                replaced by [key], key_in says where it was found ("header:x-api-key", "body", "path").

Modes:
  ok                     answers
  429[:S]                429 with Retry-After: S (default 1)
  429-bare               429 without Retry-After
  429-quota              429 insufficient_quota
  400-credit             400 "credit balance is too low"
  500, 502, 503, 529     that status
  401, 403               the key is refused
  404-model              no such model
  404                    no such page (HTML)
  400                    some refusal
  400-tools              the model takes no tools
  400-long               the prompt is too long
  redirect[:URL]         302 (default https://elsewhere.example/v1)
  html                   200 text/html
  cut                    the stream breaks off in the middle of the answer
  cut-clean              it ends in order, but in the middle of the answer
  cut-stop               it breaks off behind the stop reason
  empty                  200 with nothing
  garbage                200 text/event-stream with bytes that are no events
  garbage-json           an event that is no JSON
  garbage-http           not HTTP at all
  error-stream[:TYPE]    an error event in the stream (default overloaded_error)
  max_tokens             the answer stops at the limit, in its text
  max_tokens-call        the answer stops at the limit, in the arguments of its last call
  refusal                the model declines
  pause                  pause_turn (anthropic)
  blank                  an answer without content
  huge                   100 MB of an answer's text
  huge-line              100 MB without a newline
  huge-error             500 with a body of 100 MB
  huge-headers           10 MB of headers
  silence                headers, then nothing
  silence-early          nothing at all
  drip                   a comment of one byte each 50 ms, for ever
  bad-tool-json          the first call's arguments are no JSON
  echo-key               the key that came is in the text and in the arguments of the calls
  echo-key-error         the key that came is in a 400's message
  no-usage               without usage
  no-index, same-index   tool calls without an index, all with index 0 (openai)
  no-id                  tool calls without an id (openai)
  whole                  one JSON document though a stream was asked for (openai)
  want-completion-tokens 400 unless max_completion_tokens is sent (openai)
  no-stream-options      400 when stream_options is sent (openai)
  slow[:MS]              waits before it answers (default 1000)
"""

import argparse
import http.server
import json
import os
import socketserver
import ssl
import subprocess
import sys
import threading
import time

CHUNK = 7  # characters of text in one delta: small, so that every answer is in many pieces


class Gone(Exception):
    """The connection is to be closed without more words."""


# ---- answers as events --------------------------------------------------------------------------------

def pieces(text):
    return [text[i:i + CHUNK] for i in range(0, len(text), CHUNK)] or [""]


def sse(data, name=None):
    head = f"event: {name}\n" if name else ""
    return (head + "data: " + (data if isinstance(data, str) else json.dumps(data)) + "\n\n").encode()


def arguments(call):
    return call["raw"] if "raw" in call else json.dumps(call.get("input", {}))


def anthropic_events(step, mode, model):
    """The events of an answer, each whole."""
    usage = step.get("usage", {}) or {}
    calls = step.get("calls", [])
    stop = step.get("stop") or ("tool_use" if calls else "end_turn")
    start_usage = {"input_tokens": usage.get("input", 100), "output_tokens": 1,
                   "cache_read_input_tokens": usage.get("cache_read", 0),
                   "cache_creation_input_tokens": usage.get("cache_write", 0)}
    message = {"id": "msg_1", "type": "message", "role": "assistant", "model": model, "content": [],
               "stop_reason": None}
    if mode != "no-usage":
        message["usage"] = start_usage
    out = [sse({"type": "message_start", "message": message}, "message_start"),
           sse({"type": "ping"}, "ping")]
    index = 0

    def block(content, deltas, closed=True):
        nonlocal index
        out.append(sse({"type": "content_block_start", "index": index, "content_block": content},
                       "content_block_start"))
        for delta in deltas:
            out.append(sse({"type": "content_block_delta", "index": index, "delta": delta},
                           "content_block_delta"))
        if closed:
            out.append(sse({"type": "content_block_stop", "index": index}, "content_block_stop"))
        index += 1

    if step.get("thinking"):
        block({"type": "thinking", "thinking": "", "signature": ""},
              [{"type": "thinking_delta", "thinking": p} for p in pieces(step["thinking"])] +
              [{"type": "signature_delta", "signature": "c2lnbmVk"}])
    if step.get("text"):
        block({"type": "text", "text": ""}, [{"type": "text_delta", "text": p} for p in pieces(step["text"])])
    for n, call in enumerate(calls):
        cut = mode == "max_tokens-call" and n == len(calls) - 1
        text = arguments(call)
        block({"type": "tool_use", "id": call.get("id", f"toolu_{n}"), "name": call["name"], "input": {}},
              [{"type": "input_json_delta", "partial_json": ""}] +
              [{"type": "input_json_delta", "partial_json": p}
               for p in pieces(text[:len(text) // 2] if cut else text)], closed=not cut)
    delta = {"type": "message_delta", "delta": {"stop_reason": stop, "stop_sequence": None}}
    if mode != "no-usage":
        delta["usage"] = {"output_tokens": usage.get("output", 20)}
    out.append(sse(delta, "message_delta"))
    out.append(sse({"type": "message_stop"}, "message_stop"))
    return out


def openai_events(step, mode, model, include_usage):
    usage = step.get("usage", {}) or {}
    calls = step.get("calls", [])
    stop = step.get("stop") or ("tool_calls" if calls else "stop")
    out = []

    def chunk(delta, reason=None):
        out.append(sse({"id": "chatcmpl-1", "object": "chat.completion.chunk", "model": model,
                        "choices": [{"index": 0, "delta": delta, "finish_reason": reason}]}))

    chunk({"role": "assistant", "content": ""})
    for piece in pieces(step["thinking"]) if step.get("thinking") else []:
        chunk({"reasoning_content": piece})
    for piece in pieces(step["text"]) if step.get("text") else []:
        chunk({"content": piece})
    for n, call in enumerate(calls):
        head = {"index": n, "id": call.get("id", f"call_{n}"), "type": "function",
                "function": {"name": call["name"], "arguments": ""}}
        text = arguments(call)
        if mode == "max_tokens-call" and n == len(calls) - 1:
            text = text[:len(text) // 2]
        if mode == "no-id":
            del head["id"]
        if mode == "same-index":
            head["index"] = 0
        if mode == "no-index":
            del head["index"]
        if mode in ("no-index", "same-index"):  # such servers send a call whole
            head["function"]["arguments"] = text
            chunk({"tool_calls": [head]})
            continue
        chunk({"tool_calls": [head]})
        for piece in pieces(text):
            chunk({"tool_calls": [{"index": head["index"], "function": {"arguments": piece}}]})
    chunk({}, stop)
    if include_usage and mode != "no-usage":
        cached = usage.get("cache_read", 0)
        prompt = usage.get("input", 100) + cached
        output = usage.get("output", 20)
        out.append(sse({"id": "chatcmpl-1", "object": "chat.completion.chunk", "model": model, "choices": [],
                        "usage": {"prompt_tokens": prompt, "completion_tokens": output,
                                  "total_tokens": prompt + output,
                                  "prompt_tokens_details": {"cached_tokens": cached}}}))
    out.append(sse("[DONE]"))
    return out


def openai_document(step, model):
    calls = [{"id": c.get("id", f"call_{n}"), "type": "function",
              "function": {"name": c["name"], "arguments": arguments(c)}}
             for n, c in enumerate(step.get("calls", []))]
    message = {"role": "assistant", "content": step.get("text")}
    if calls:
        message["tool_calls"] = calls
    return {"id": "chatcmpl-1", "object": "chat.completion", "model": model,
            "choices": [{"index": 0, "message": message, "finish_reason": "tool_calls" if calls else "stop"}],
            "usage": {"prompt_tokens": 100, "completion_tokens": 20}}


# ---- errors -----------------------------------------------------------------------------------------------

TYPES = {400: "invalid_request_error", 401: "authentication_error", 403: "permission_error",
         404: "not_found_error", 429: "rate_limit_error", 500: "api_error", 529: "overloaded_error"}


def error_body(wire, status, message, code=None):
    kind = TYPES.get(status, "api_error")
    if wire == "anthropic":
        return {"type": "error", "error": {"type": code or kind, "message": message}}
    return {"error": {"message": message, "type": kind, "param": None, "code": code}}


# ---- the server -------------------------------------------------------------------------------------------

class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = 0

    def log_message(self, *args):
        pass

    def do_GET(self):
        self.take(None)

    def do_POST(self):
        self.take(self.rfile.read(int(self.headers.get("Content-Length") or 0)))

    # -- sending

    def status(self, code, body, headers=(), content_type="application/json"):
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.send_response(code)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(data)))
        for name, value in headers:
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(data)

    def begin(self, content_type="text/event-stream"):
        self.send_response(200)
        self.send_header("Content-Type", content_type)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()

    def chunk(self, data):
        self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))

    def finish_chunks(self):
        self.wfile.write(b"0\r\n\r\n")

    def hold(self):
        """Says nothing until the other side has gone."""
        try:
            while self.connection.recv(4096):
                pass
        except OSError:
            pass
        raise Gone

    def flood(self, head, piece, tail=b""):
        self.begin()
        self.chunk(head)
        for _ in range(100 * 1024 * 1024 // len(piece)):
            self.chunk(piece)
        self.chunk(tail)
        self.finish_chunks()

    # -- the request

    def take(self, raw):
        server = self.server
        key = (self.headers.get("x-api-key") or
               (self.headers.get("Authorization") or "").removeprefix("Bearer "))
        try:
            body = json.loads(raw) if raw else None
        except ValueError:
            body = None
        wire = "anthropic" if self.path.split("?")[0].endswith("/messages") else "openai"
        with server.lock:
            server.count += 1
            number = server.count
            mode = server.next_mode(body)
        self.log(number, raw, body, key)
        try:
            if self.command != "POST" or not self.path.endswith(("/messages", "/chat/completions")):
                self.status(404, b"<html>no such page</html>", content_type="text/html")
            elif body is None:
                self.status(400, error_body(wire, 400, "the body is no JSON"))
            elif server.key and key != server.key:
                self.status(401, error_body(wire, 401, "invalid x-api-key", None if wire == "anthropic"
                                            else "invalid_api_key"))
            else:
                self.answer(wire, mode, body, key)
        except (Gone, BrokenPipeError, ConnectionResetError, ssl.SSLError):
            self.close_connection = True

    def log(self, number, raw, body, key):
        found = []
        raw = raw or b""
        if key:
            found += [f"header:{n.lower()}" for n, v in self.headers.items() if key in v]
            found += ["body"] if key.encode() in raw else []
            found += ["path"] if key in self.path else []
        line = json.dumps({"n": number, "method": self.command, "path": self.path,
                           "version": self.request_version, "headers": dict(self.headers.items()),
                           "body": body, "key_in": found})
        if key:
            line = line.replace(key, "[key]")
        with self.server.lock:
            self.server.requests.append(json.loads(line))
            if self.server.log:
                with open(self.server.log, "a", encoding="utf-8") as f:
                    f.write(line + "\n")

    def refuse(self, wire, mode, body, key):
        """The modes that are an HTTP status. False: none of them."""
        name, _, arg = mode.partition(":")
        model = body.get("model", "")
        if name == "429":
            self.status(429, error_body(wire, 429, "slow down"), [("Retry-After", arg or "1")])
        elif name == "429-bare":
            self.status(429, error_body(wire, 429, "slow down"))
        elif name == "429-quota":
            self.status(429, error_body(wire, 429, "You exceeded your current quota, please check your plan.",
                                        "insufficient_quota"))
        elif name == "400-credit":
            self.status(400, error_body(wire, 400, "Your credit balance is too low to access the API."))
        elif name in ("500", "502", "503", "529"):
            self.status(int(name), error_body(wire, int(name), "Overloaded"))
        elif name in ("401", "403"):
            self.status(int(name), error_body(wire, int(name), "invalid x-api-key"))
        elif name == "404-model":
            message = f"model: {model}" if wire == "anthropic" else f"The model `{model}` does not exist."
            self.status(404, error_body(wire, 404, message, None if wire == "anthropic" else "model_not_found"))
        elif name == "404":
            self.status(404, b"<html>no such page</html>", content_type="text/html")
        elif name == "400":
            self.status(400, error_body(wire, 400, "something about \x1b[31m the request"))
        elif name == "400-tools":
            self.status(400, error_body(wire, 400, f"{model} does not support tools"))
        elif name == "400-long":
            self.status(400, error_body(wire, 400, "prompt is too long: 300000 tokens > 200000 maximum"))
        elif name == "redirect":
            self.status(302, b"", [("Location", arg or "https://elsewhere.example/v1/messages")])
        elif name == "html":
            self.status(200, b"<html>Please log in</html>", content_type="text/html")
        elif name == "echo-key-error":
            self.status(400, error_body(wire, 400, f"bad request with key {key}"))
        elif name == "want-completion-tokens" and "max_completion_tokens" not in body:
            self.status(400, error_body(wire, 400, "Unsupported parameter: 'max_tokens' is not supported with "
                                        "this model. Use 'max_completion_tokens' instead."))
        elif name == "no-stream-options" and "stream_options" in body:
            self.status(400, error_body(wire, 400, "Extra inputs are not permitted: stream_options"))
        elif name == "huge-error":
            self.send_response(500)
            self.send_header("Content-Type", "application/json")
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            for _ in range(1600):
                self.chunk(b"x" * 65536)
            self.finish_chunks()
        elif name == "huge-headers":
            self.wfile.write(b"HTTP/1.1 200 OK\r\n")
            for n in range(10240):
                self.wfile.write(b"X-%d: %s\r\n" % (n, b"x" * 1024))
            self.wfile.write(b"\r\n")
        else:
            return False
        return True

    def misbehave(self, wire, mode, events):
        """The modes that spoil a stream. False: none of them."""
        name, _, arg = mode.partition(":")
        if name == "cut":
            self.begin()
            for event in events[:len(events) // 2]:
                self.chunk(event)
            self.wfile.write(b"40\r\nevent: content")
            raise Gone
        if name == "cut-clean":
            self.begin()
            for event in events[:len(events) // 2]:
                self.chunk(event)
            self.finish_chunks()
        elif name == "cut-stop":
            self.begin()
            for event in events[:-1]:
                self.chunk(event)
            raise Gone
        elif name == "empty":
            self.begin()
            self.finish_chunks()
        elif name == "garbage":
            self.begin()
            self.chunk(bytes(range(256)) * 16 + b"data: \xff\xfe{\n\n")
            self.finish_chunks()
        elif name == "garbage-json":
            self.begin()
            self.chunk(b"data: {\"type\": \"content_block_delta\", \n\n")
            self.finish_chunks()
        elif name == "garbage-http":
            self.wfile.write(b"\x00\x01\x02 SSH-2.0-nothing\r\n\r\n")
            raise Gone
        elif name == "error-stream":
            kind = arg or "overloaded_error"
            self.begin()
            for event in events[:2]:
                self.chunk(event)
            if wire == "anthropic":
                self.chunk(sse({"type": "error", "error": {"type": kind, "message": "Overloaded"}}, "error"))
            else:
                self.chunk(sse({"error": {"message": "Overloaded", "type": kind, "code": None}}))
            self.finish_chunks()
        elif name == "huge":
            text = "x" * 65536
            if wire == "anthropic":
                self.flood(b"".join(events[:2]) +
                           sse({"type": "content_block_start", "index": 0,
                                "content_block": {"type": "text", "text": ""}}),
                           sse({"type": "content_block_delta", "index": 0,
                                "delta": {"type": "text_delta", "text": text}}))
            else:
                self.flood(events[0], sse({"choices": [{"index": 0, "delta": {"content": text}}]}))
        elif name == "huge-line":
            self.flood(b"data: ", b"x" * 65536)
        elif name == "silence":
            self.begin()
            self.hold()
        elif name == "silence-early":
            self.hold()
        elif name == "drip":
            self.begin()
            while True:
                self.chunk(b":")
                time.sleep(0.05)
        else:
            return False
        return True

    def answer(self, wire, mode, body, key):
        name, _, arg = mode.partition(":")
        model = body.get("model", "")
        step = dict(self.server.step_of(body))
        time.sleep(step.get("delay_ms", 0) / 1000)
        if name == "slow":
            time.sleep(int(arg or 1000) / 1000)
        if self.refuse(wire, mode, body, key):
            return
        if name in ("max_tokens", "max_tokens-call"):
            step["stop"] = "max_tokens" if wire == "anthropic" else "length"
        if name == "max_tokens":
            step["text"], step["calls"] = (step.get("text") or "I begin with") + " and", []
        elif name == "refusal":
            step = {"text": "I will not do that.", "stop": "refusal" if wire == "anthropic" else "content_filter"}
        elif name == "blank":
            step = {}
        elif name == "pause":
            step = {"text": "A pause.", "stop": "pause_turn"}
        elif name == "bad-tool-json":
            calls = [dict(c) for c in step.get("calls", [])] or [{"name": "read_file"}]
            calls[0]["raw"] = '{"path": "a", '
            step["calls"] = calls
        elif name == "echo-key":
            step = json.loads(json.dumps(step).replace("@KEY@", key))
            step["text"] = f"Your key is {key}, is it not? " + step.get("text", "")
        if wire == "anthropic":
            events = anthropic_events(step, name, model)
        else:
            include = bool((body.get("stream_options") or {}).get("include_usage"))
            events = openai_events(step, name, model, include)
        if name == "whole" and wire == "openai":
            self.status(200, openai_document(step, model))
            return
        if self.misbehave(wire, mode, events):
            return
        self.begin()
        for event in events:
            self.chunk(event)
        self.finish_chunks()


class HttpServer(socketserver.ThreadingMixIn, http.server.HTTPServer):
    daemon_threads = True
    request_queue_size = 64

    def __init__(self, address, options):
        self.lock = threading.Lock()
        self.count = 0
        self.key = options.key
        self.log = options.log
        self.requests = []
        self.modes = []  # [mode, how often; 0: for ever]
        for text in options.mode:
            mode, star, times = text.partition("*")
            self.modes.append([mode, int(times) if star else 0])
        self.steps = [{"text": "ok"}]
        if options.script:
            with open(options.script, encoding="utf-8") as f:
                self.steps = json.load(f)
        self.step_uses = {}
        super().__init__(address, Handler)
        if options.tls_dir:
            options.tls = make_certificates(options.tls_dir, options.tls_name)
        if options.tls:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(*options.tls)
            self.socket = context.wrap_socket(self.socket, server_side=True, do_handshake_on_connect=False)

    def handle_error(self, request, client_address):
        pass  # a client that goes away is what many tests are about

    def index_of(self, body):
        talk = (body or {}).get("messages") or []
        return min(sum(m.get("role") == "assistant" for m in talk), len(self.steps) - 1)

    def step_of(self, body):
        return self.steps[self.index_of(body)]

    def next_mode(self, body):
        while self.modes:
            mode, left = self.modes[0]
            if left == 0:
                return mode
            self.modes[0][1] -= 1
            if self.modes[0][1] == 0:
                self.modes.pop(0)
            return mode
        index = self.index_of(body)
        modes = self.steps[index].get("modes") or ["ok"]
        used = self.step_uses.get(index, 0)
        self.step_uses[index] = used + 1
        return modes[min(used, len(modes) - 1)]


def make_certificates(directory, name):
    """An authority and a certificate of it for name and 127.0.0.1."""
    os.makedirs(directory, exist_ok=True)
    ca, ca_key, cert, key = (os.path.join(directory, f) for f in ("ca.pem", "ca.key", "cert.pem", "key.pem"))

    def openssl(*words):
        subprocess.run(["openssl", *words], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    if not os.path.exists(cert):
        new_key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]
        extensions = os.path.join(directory, "extensions")
        with open(extensions, "w", encoding="ascii") as f:
            f.write(f"subjectAltName=DNS:{name},IP:127.0.0.1\n")
        openssl("req", "-x509", *new_key, "-keyout", ca_key, "-out", ca, "-days", "7", "-subj",
                "/CN=Test authority")
        openssl("req", *new_key, "-keyout", key, "-out", cert + ".csr", "-subj", f"/CN={name}")
        openssl("x509", "-req", "-in", cert + ".csr", "-CA", ca, "-CAkey", ca_key, "-CAcreateserial", "-days",
                "7", "-out", cert, "-extfile", extensions)
    return cert, key


def watch_parent():
    parent = os.getppid()
    while os.getppid() == parent:
        time.sleep(0.5)
    os._exit(0)


def parse_arguments(words=None):
    parser = argparse.ArgumentParser(usage=__doc__, add_help=True)
    parser.add_argument("--script")
    parser.add_argument("--mode", action="append", default=[])
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--tls", nargs=2)
    parser.add_argument("--tls-dir")
    parser.add_argument("--tls-name", default="localhost")
    parser.add_argument("--key")
    parser.add_argument("--log")
    return parser.parse_args(words)


class Server:
    """The same within a test's own process; a context manager."""

    def __init__(self, **options):
        arguments = parse_arguments([])
        for name, value in options.items():
            setattr(arguments, name, value)
        self.tls = bool(arguments.tls or arguments.tls_dir)
        self.http = HttpServer((arguments.host, arguments.port), arguments)
        self.host, self.port = arguments.host, self.http.server_address[1]
        self.url = f"{'https' if self.tls else 'http'}://{self.host}:{self.port}"
        self.thread = threading.Thread(target=self.http.serve_forever, daemon=True)

    @property
    def requests(self):
        with self.http.lock:
            return list(self.http.requests)

    def script(self, items):
        """Replaces what is to come: strings are modes, each for one request; the rest are steps."""
        with self.http.lock:
            self.http.modes = [[item, 1] for item in items if isinstance(item, str)]
            self.http.steps = [item for item in items if not isinstance(item, str)] or [{"text": "ok"}]
            self.http.step_uses = {}

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.http.shutdown()
        self.http.server_close()


def answer_text(text, **more):
    return {"text": text, **more}


def answer_calls(calls, text="", **more):
    """calls: [{"name","input","id"?}]."""
    return {"text": text, "calls": [{k: c[k] for k in ("id", "name", "input", "raw") if k in c} for c in calls],
            **more}


def main():
    options = parse_arguments()
    server = HttpServer((options.host, options.port), options)
    threading.Thread(target=watch_parent, daemon=True).start()
    print(server.server_address[1], flush=True)
    server.serve_forever()


if __name__ == "__main__":
    sys.exit(main())
