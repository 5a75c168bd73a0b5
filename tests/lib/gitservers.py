"""Real git servers of the distribution, on loopback: git http-backend behind nginx with TLS and a token,
OpenSSH's sshd, and the ones that misbehave. Each is started by a test and ended by its process id.

    with HttpsServer(dir, root=repos, user="bot", token="t0ken") as server:
        url = f"https://localhost:{server.port}/git/name.git"

Nothing is installed, no service of the machine is touched. missing() says what is not there.
"""

import ctypes
import os
import pwd
import shutil
import socket
import subprocess
import threading
import time

BACKEND = "/usr/lib/git-core/git-http-backend"
NGINX, FCGIWRAP, SSHD = "/usr/sbin/nginx", "/usr/sbin/fcgiwrap", "/usr/sbin/sshd"


def missing():
    """Names of the programs that are needed and not there."""
    wanted = [NGINX, FCGIWRAP, SSHD, BACKEND, "openssl", "ssh-keygen", "git"]
    return [name for name in wanted if not shutil.which(name)]


def no_login():
    """Why the user of this process cannot log in by ssh, or None."""
    try:
        user = pwd.getpwuid(os.geteuid())
    except KeyError:
        return "the user of this process has no account"
    return "the account has no shell to log in with" if os.path.basename(user.pw_shell) in ("nologin", "false") else None


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def run(*args, **more):
    done = subprocess.run(args, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, **more)
    if done.returncode:
        raise RuntimeError(f"{args}: {done.stdout.decode(errors='replace')}")
    return done.stdout.decode(errors="replace")


def die_with_test():
    """In the child: a test that is killed leaves no server."""
    ctypes.CDLL(None).prctl(1, 9)  # PR_SET_PDEATHSIG


class Server:
    """Processes that end together."""

    def __init__(self):
        self.processes = []

    def start(self, *args, env=None, log=None):
        out = open(log, "ab") if log else subprocess.DEVNULL
        child = subprocess.Popen(args, stdin=subprocess.DEVNULL, stdout=out, stderr=out, env=env,
                                 start_new_session=True, preexec_fn=die_with_test)
        if log:
            out.close()
        self.processes.append(child)
        return child

    def wait_port(self, port, log=None):
        limit = time.monotonic() + 30
        while True:
            try:
                socket.create_connection(("127.0.0.1", port), 1).close()
                return
            except OSError:
                dead = [p for p in self.processes if p.poll() is not None]
                if dead or time.monotonic() > limit:
                    text = open(log, errors="replace").read() if log and os.path.exists(log) else ""
                    raise RuntimeError(f"no server on port {port}: {text}") from None
                time.sleep(0.01)

    def stop(self):
        for child in reversed(self.processes):
            try:
                os.killpg(child.pid, 15)
            except ProcessLookupError:
                pass
            try:
                child.wait(5)
            except subprocess.TimeoutExpired:
                pass
            try:
                os.killpg(child.pid, 9)
            except ProcessLookupError:
                pass
            child.wait()
        self.processes = []

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.stop()


class Authority:
    """A certificate authority of one's own and a certificate for localhost."""

    def __init__(self, directory):
        self.dir = directory
        os.makedirs(directory, exist_ok=True)
        path = lambda name: os.path.join(directory, name)
        self.ca, self.key, self.cert = path("ca.pem"), path("server.key"), path("server.pem")
        run("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2",
            "-keyout", path("ca.key"), "-out", self.ca, "-subj", "/CN=test authority",
            "-addext", "basicConstraints=critical,CA:TRUE", "-addext", "keyUsage=critical,keyCertSign")
        run("openssl", "req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
            "-keyout", self.key, "-out", path("server.csr"), "-subj", "/CN=localhost")
        with open(path("ext"), "w") as f:
            f.write("subjectAltName=DNS:localhost\nextendedKeyUsage=serverAuth\n")
        run("openssl", "x509", "-req", "-in", path("server.csr"), "-CA", self.ca, "-CAkey", path("ca.key"),
            "-CAcreateserial", "-days", "2", "-out", self.cert, "-extfile", path("ext"))


NGINX_CONF = """
%(user)s
daemon off;
worker_processes 1;
error_log %(dir)s/error.log;
pid %(dir)s/nginx.pid;
events { worker_connections 64; }
http {
    access_log %(dir)s/access.log;
    client_body_temp_path %(dir)s/body;
    proxy_temp_path %(dir)s/proxy;
    fastcgi_temp_path %(dir)s/fastcgi;
    uwsgi_temp_path %(dir)s/uwsgi;
    scgi_temp_path %(dir)s/scgi;
    server {
        listen 127.0.0.1:%(port)d ssl;
        ssl_certificate %(cert)s;
        ssl_certificate_key %(key)s;
        client_max_body_size 0;
        location /elsewhere/ { return 302 https://127.0.0.1:%(other)d/git/$uri; }
        location /forbidden/ { return 403; }
        location ~ ^/git(/.*)$ {
            auth_basic "git";
            auth_basic_user_file %(dir)s/htpasswd;
            fastcgi_pass unix:%(dir)s/fcgi.sock;
            fastcgi_buffering off;
            fastcgi_request_buffering off;
            fastcgi_read_timeout 600s;
            fastcgi_param SCRIPT_FILENAME %(backend)s;
            fastcgi_param GIT_PROJECT_ROOT %(root)s;
            fastcgi_param GIT_HTTP_EXPORT_ALL 1;
            fastcgi_param PATH_INFO $1;
            fastcgi_param REMOTE_USER $remote_user;
            fastcgi_param REMOTE_ADDR $remote_addr;
            fastcgi_param QUERY_STRING $query_string;
            fastcgi_param REQUEST_METHOD $request_method;
            fastcgi_param CONTENT_TYPE $content_type;
            fastcgi_param CONTENT_LENGTH $content_length;
            fastcgi_param HTTP_CONTENT_ENCODING $http_content_encoding;
        }
    }
}
"""


class HttpsServer(Server):
    """git http-backend below /git/, for user and for x-access-token, with one token; /elsewhere/ redirects to other_port on
    another host name."""

    def __init__(self, directory, root, user, token, authority=None, other_port=1):
        super().__init__()
        self.dir, self.port = directory, free_port()
        os.makedirs(directory)
        self.authority = authority or Authority(os.path.join(directory, "tls"))
        with open(os.path.join(directory, "htpasswd"), "w") as f:
            f.writelines(f"{name}:{{PLAIN}}{token}\n" for name in {user, "x-access-token"})
        conf = os.path.join(directory, "nginx.conf")
        with open(conf, "w") as f:
            f.write(NGINX_CONF % {"user": "user root;" if os.geteuid() == 0 else "", "dir": directory,
                                  "port": self.port, "cert": self.authority.cert, "key": self.authority.key,
                                  "other": other_port, "backend": BACKEND, "root": root})
        log = os.path.join(directory, "log")
        env = {"PATH": "/usr/bin:/bin", "HOME": directory, "LC_ALL": "C"}
        try:
            self.start(FCGIWRAP, "-c", "4", "-s", f"unix:{directory}/fcgi.sock", env=env, log=log)
            self.start(NGINX, "-p", directory, "-e", f"{directory}/error.log", "-c", conf, env=env, log=log)
            self.wait_port(self.port, log)
        except BaseException:
            self.stop()
            raise

    def requests(self):
        with open(os.path.join(self.dir, "access.log"), errors="replace") as f:
            return f.read()


class SshServer(Server):
    """sshd for the user of this process. authorized: public keys, one a line."""

    def __init__(self, directory, authorized=""):
        super().__init__()
        self.dir, self.port = directory, free_port()
        self.user = pwd.getpwuid(os.geteuid()).pw_name
        self.made = None
        os.makedirs(directory)
        self.new_host_key()
        self.authorize(authorized)
        self.up()

    def path(self, name):
        return os.path.join(self.dir, name)

    def new_host_key(self):
        for name in ("host_key", "host_key.pub"):
            if os.path.exists(self.path(name)):
                os.unlink(self.path(name))
        run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", self.path("host_key"))

    def authorize(self, text):
        with open(self.path("authorized"), "w") as f:
            f.write(text)

    def up(self):
        conf = self.path("sshd_config")
        with open(conf, "w") as f:
            f.write(f"ListenAddress 127.0.0.1\nPort {self.port}\nHostKey {self.path('host_key')}\n"
                    f"AuthorizedKeysFile {self.path('authorized')}\nPidFile {self.path('pid')}\n"
                    "StrictModes no\nUsePAM no\nPasswordAuthentication no\nKbdInteractiveAuthentication no\n"
                    "PermitRootLogin yes\nLogLevel VERBOSE\nMaxStartups 100\n")
        if os.geteuid() == 0 and not os.path.isdir("/run/sshd"):
            os.mkdir("/run/sshd", 0o755)  # where sshd gives up its power; made by the service's unit otherwise
            self.made = "/run/sshd"
        try:
            self.start(SSHD, "-D", "-e", "-f", conf, log=self.path("log"))
            self.wait_port(self.port, self.path("log"))
        except BaseException:
            self.stop()
            raise

    def known_hosts(self, host="localhost"):
        with open(self.path("host_key.pub")) as f:
            kind, key = f.read().split()[:2]
        return f"[{host}]:{self.port} {kind} {key}\n"

    def log(self):
        with open(self.path("log"), errors="replace") as f:
            return f.read()

    def stop(self):
        super().stop()
        if self.made:
            try:
                os.rmdir(self.made)
            except OSError:
                pass
            self.made = None


class TcpServer:
    """A listener on 127.0.0.1 whose connections run in threads of this test. handle(connection)."""

    def __init__(self, handle):
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.handle, self.connections, self.closing = handle, [], False
        self.accepted = threading.Event()
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        while not self.closing:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            self.connections.append(connection)
            self.accepted.set()
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection):
        try:
            self.handle(connection)
        except OSError:
            pass

    def stop(self):
        self.closing = True
        for s in [self.listener] + self.connections:
            try:
                s.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
            s.close()

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.stop()


def silent_server():
    """Takes connections and never says a word."""
    return TcpServer(lambda connection: None)


class Passage(TcpServer):
    """Passes bytes on to a port. Once stop_after bytes have come from clients, over all connections, what comes next waits for
    release(); with then_close this and every later connection is cut instead. reached is set at that moment."""

    def __init__(self, port, stop_after=None, then_close=False):
        self.target, self.stop_after, self.then_close = port, stop_after, then_close
        self.reached, self.go = threading.Event(), threading.Event()
        self.passed = 0
        super().__init__(self._pass)

    def release(self):
        self.go.set()

    def _pass(self, client):
        if self.reached.is_set() and self.then_close:
            client.close()
            return
        server = socket.create_connection(("127.0.0.1", self.target))
        self.connections.append(server)
        threading.Thread(target=self._pump, args=(server, client), daemon=True).start()
        while data := client.recv(16384):
            self.passed += len(data)
            if self.stop_after is not None and self.passed > self.stop_after and not self.go.is_set():
                self.reached.set()
                if self.then_close:
                    client.shutdown(socket.SHUT_RDWR)
                    server.shutdown(socket.SHUT_RDWR)
                    return
                self.go.wait()
            server.sendall(data)
        server.shutdown(socket.SHUT_WR)

    @staticmethod
    def _pump(source, target):
        try:
            while data := source.recv(16384):
                target.sendall(data)
            target.shutdown(socket.SHUT_WR)
        except OSError:
            pass
