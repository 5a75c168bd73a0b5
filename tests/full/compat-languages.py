#!/usr/bin/python3
# deadline: 900
"""Test suites of the usual languages, run by their own runners in the jail: pytest with workers, node, go with its race detector,
cargo, JUnit on a JVM, ctest."""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from compat import Row, find, run_rows  # noqa: E402
from tap import Tap  # noqa: E402

JARS = " ".join(f"/usr/share/java/{name}.jar" for name in (
    "junit-platform-console", "junit-platform-commons", "junit-platform-engine", "junit-platform-launcher", "junit-platform-reporting",
    "junit-jupiter-api", "junit-jupiter-engine", "junit-jupiter-params", "opentest4j", "apiguardian-api", "picocli", "univocity-parsers"))

GO = "/usr/lib/go-*/bin/go" if find("/usr/lib/go-*/bin/go") else "/usr/local/go/bin/go"

PYTEST = Row("pytest with multiprocessing, servers, temporary directories, and four workers", "python3", r"""
python3 -m pytest -q -p no:cacheprovider test_one.py && python3 -m pytest -q -n 4 test_one.py && test -d .pytest_cache""", {
    "test_one.py": r'''
import concurrent.futures, multiprocessing, os, socket, subprocess, sys, threading, time
import pytest

def square(x):
    return x * x

@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_pool(method):
    context = multiprocessing.get_context(method)
    with context.Pool(3) as pool:
        assert pool.map(square, range(9)) == [x * x for x in range(9)]
    queue, lock, value = context.Queue(), context.RLock(), context.Value("i", 0)
    with lock:
        queue.put(1)
    assert queue.get(timeout=20) == 1 and value.value == 0

def test_manager():
    with multiprocessing.Manager() as manager:
        shared = manager.dict()
        shared["a"] = 1
        assert dict(shared) == {"a": 1}

def test_executor():
    with concurrent.futures.ProcessPoolExecutor(2) as pool:
        assert sum(pool.map(square, range(5))) == 30

@pytest.mark.parametrize("family,host", [(socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")])
def test_server(family, host):
    with socket.socket(family) as server:
        server.bind((host, 0)); server.listen()
        threading.Thread(target=lambda: server.accept()[0].send(b"hi"), daemon=True).start()
        with socket.create_connection(server.getsockname()[:2], 10) as client:
            assert client.recv(2) == b"hi"

def test_tmp_path(tmp_path, capfd, monkeypatch):
    (tmp_path / "x").write_text("\u00e4")
    assert (tmp_path / "x").read_text() == "\u00e4"
    (tmp_path / "x").chmod(0)
    with pytest.raises(PermissionError):
        (tmp_path / "x").read_text()
    subprocess.run([sys.executable, "-c", "print('out')"], check=True)
    assert "out" in capfd.readouterr().out

@pytest.mark.parametrize("n", range(12))
def test_many(n):
    time.sleep(0.01)
'''})

NODE = Row("node's test runner with children, workers, servers on 127.0.0.1 and ::1, files watched", "node", "node --test .", {
    "package.json": '{"name": "x", "version": "1.0.0", "scripts": {"test": "node --test ."}}\n',
    "child.js": "process.on('message', m => { process.send(m + 1); process.disconnect(); });\n",
    "one.test.js": r'''
const test = require("node:test"), assert = require("node:assert"), http = require("node:http"), net = require("node:net");
const { fork, spawn, execFileSync } = require("node:child_process"), { Worker } = require("node:worker_threads");
const fs = require("node:fs"), os = require("node:os"), path = require("node:path"), dns = require("node:dns").promises;
for (const host of ["127.0.0.1", "::1", "localhost"])
    test("a server on " + host, (t, done) => {
        const server = http.createServer((q, r) => r.end("ok")).listen(0, host, () =>
            http.get({ host, port: server.address().port }, r => { assert.equal(r.statusCode, 200); r.resume();
                                                                   server.close(() => done()); }));
    });
test("a forked child with a channel", (t, done) => {
    const child = fork(path.join(__dirname, "child.js"));
    child.on("message", m => { assert.equal(m, 42); done(); });
    child.send(41);
});
test("a shell, and its status", (t, done) => { spawn("sh", ["-c", "exit 7"]).on("exit", c => { assert.equal(c, 7); done(); }); });
test("a worker", (t, done) => {
    new Worker("require('worker_threads').parentPort.postMessage(1)", { eval: true }).on("message", () => done());
});
test("a unix socket", (t, done) => {
    const name = path.join(os.tmpdir(), "s"), server = net.createServer(c => c.end("x")).listen(name, () =>
        net.connect(name).on("data", () => server.close(() => done())));
});
test("a watched file", (t, done) => {
    const dir = fs.mkdtempSync(path.join(os.tmpdir(), "w"));
    const watcher = fs.watch(dir, () => { watcher.close(); done(); });
    fs.writeFileSync(path.join(dir, "f"), "x");
});
test("names and places", async () => {
    assert.equal(os.userInfo().username, "agent"); assert.ok(os.cpus().length >= 1); assert.ok(os.totalmem() > 0);
    assert.equal((await dns.lookup("localhost")).address.length > 2, true);
    await assert.rejects(dns.lookup("example.com"));
    assert.equal(new Date(0).toLocaleTimeString("en-GB"), "00:00:00");
    assert.equal(new Date(0).toLocaleTimeString("en-GB", { timeZone: "Asia/Tokyo" }), "09:00:00");
});
'''})

GO_FILES = {
    "go.mod": "module x\n\ngo 1.19\n",
    "x.go": "package x\n\nfunc Add(a, b int) int { return a + b }\n",
    "x_test.go": r'''package x

import (
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"os/user"
	"runtime"
	"sync"
	"testing"
	"time"
)

func TestAdd(t *testing.T) {
	if Add(1, 2) != 3 {
		t.Fatal()
	}
}

func TestServers(t *testing.T) {
	for _, address := range []string{"127.0.0.1:0", "[::1]:0", "localhost:0"} {
		l, err := net.Listen("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		s := &httptest.Server{Listener: l, Config: &http.Server{Handler: http.NotFoundHandler()}}
		s.Start()
		r, err := http.Get(s.URL)
		if err != nil || r.StatusCode != 404 {
			t.Fatal(err)
		}
		io.Copy(io.Discard, r.Body)
		s.Close()
	}
}

func TestSystem(t *testing.T) {
	t.Parallel()
	u, err := user.Current()
	if err != nil || u.Username != "agent" || u.HomeDir != "/home/agent" {
		t.Fatal(u, err)
	}
	if _, err := time.LoadLocation("Europe/Berlin"); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("sh", "-c", "echo hi").Output(); err != nil || string(out) != "hi\n" {
		t.Fatal(err)
	}
	if err := os.WriteFile(t.TempDir()+"/f", nil, 0o600); err != nil || runtime.NumCPU() < 1 {
		t.Fatal(err)
	}
	if _, err := net.Dial("tcp", "example.com:80"); err == nil {
		t.Fatal("there is a network")
	}
}

func TestParallel(t *testing.T) {
	var group sync.WaitGroup
	var lock sync.Mutex
	n := 0
	for i := 0; i < 50; i++ {
		group.Add(1)
		go func() { lock.Lock(); n++; lock.Unlock(); group.Done() }()
	}
	group.Wait()
	if n != 50 {
		t.Fatal(n)
	}
}
''',
    "race/race_test.go": r'''package race

import "testing"

func TestRace(t *testing.T) {
	n, done := 0, make(chan bool)
	go func() { n++; done <- true }()
	n++
	<-done
}
'''}

CARGO_FILES = {
    "Cargo.toml": '[package]\nname = "x"\nversion = "0.1.0"\nedition = "2021"\n',
    "src/lib.rs": r'''
/// ```
/// assert_eq!(x::add(1, 2), 3);
/// ```
pub fn add(a: i32, b: i32) -> i32 { a + b }

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};

    fn ping(address: &str) {
        let listener = TcpListener::bind(address).unwrap();
        let to = listener.local_addr().unwrap();
        let thread = std::thread::spawn(move || listener.accept().unwrap().0.write_all(b"hi").unwrap());
        let mut text = String::new();
        TcpStream::connect(to).unwrap().read_to_string(&mut text).unwrap();
        thread.join().unwrap();
        assert_eq!(text, "hi");
    }
    #[test] fn v4() { ping("127.0.0.1:0") }
    #[test] fn v6() { ping("[::1]:0") }
    #[test] fn child() {
        assert_eq!(std::process::Command::new("sh").args(["-c", "exit 3"]).status().unwrap().code(), Some(3));
    }
    #[test] #[should_panic] fn panics() { panic!("wanted") }
}
'''}

JUNIT_FILES = {
    "src/ATest.java": r'''
import static org.junit.jupiter.api.Assertions.*;
import java.io.*;
import java.net.*;
import java.nio.file.*;
import java.time.*;
import java.util.*;
import java.util.concurrent.*;
import org.junit.jupiter.api.*;
import org.junit.jupiter.api.io.TempDir;

class ATest {
    @Test void names() throws Exception {
        assertEquals("/home/agent", System.getProperty("user.home"));
        assertEquals("agent", System.getProperty("user.name"));
        assertEquals("/tmp", System.getProperty("java.io.tmpdir"));
        assertTrue(Runtime.getRuntime().availableProcessors() >= 1);
        assertEquals(ZoneId.of("UTC").normalized(), ZoneId.systemDefault().normalized());
        assertNotNull(InetAddress.getLocalHost());
        assertEquals("\u00e4", new String("\u00e4".getBytes(), java.nio.charset.Charset.defaultCharset()));
    }
    @Test void servers() throws Exception {
        for (String host : List.of("127.0.0.1", "::1", "localhost"))
            try (ServerSocket server = new ServerSocket(0, 5, InetAddress.getByName(host))) {
                Future<?> f = ForkJoinPool.commonPool().submit(() -> { try (Socket s = server.accept()) { s.getOutputStream().write(7); }
                                                                       return null; });
                try (Socket s = new Socket(host, server.getLocalPort())) { assertEquals(7, s.getInputStream().read()); }
                f.get(10, TimeUnit.SECONDS);
            }
    }
    @Test void children() throws Exception {
        Process p = new ProcessBuilder("sh", "-c", "exit 5").start();
        assertEquals(5, p.waitFor());
        Process java = new ProcessBuilder(ProcessHandle.current().info().command().get(), "-version").redirectErrorStream(true).start();
        java.getInputStream().readAllBytes();
        assertEquals(0, java.waitFor());
    }
    @Test void files(@TempDir Path dir) throws Exception {
        try (WatchService watch = dir.getFileSystem().newWatchService()) {
            dir.register(watch, StandardWatchEventKinds.ENTRY_CREATE);
            Files.writeString(dir.resolve("x"), "\u00e4");
            assertNotNull(watch.poll(10, TimeUnit.SECONDS));
        }
        assertTrue(dir.resolve("x").toFile().setReadable(false, false));
        assertThrows(AccessDeniedException.class, () -> Files.readString(dir.resolve("x")));
    }
    @Test void threads() throws Exception {
        ExecutorService pool = Executors.newFixedThreadPool(16);
        List<Future<Integer>> all = new ArrayList<>();
        for (int i = 0; i < 100; i++) { int n = i; all.add(pool.submit(() -> n)); }
        int sum = 0; for (Future<Integer> f : all) sum += f.get();
        assertEquals(4950, sum); pool.shutdown();
    }
    @Test void tlsStore() throws Exception { assertNotNull(javax.net.ssl.SSLContext.getDefault()); }
}
'''}

JUNIT = f"""set -e
mkdir -p out; CP=$(echo {JARS} | tr ' ' :)
"$JAVA/bin/javac" -encoding UTF-8 -cp "$CP" -d out src/ATest.java
"$JAVA/bin/java" $FLAGS -cp "$CP:out" org.junit.platform.console.ConsoleLauncher --disable-banner --scan-classpath out \
    --include-classname '.*' --reports-dir reports
grep -q 'tests="6"' reports/*.xml && ! grep -q '<failure' reports/*.xml"""


def java_rows():
    homes = [home for home in ("/usr/lib/jvm/java-1.*-openjdk-*", "/usr/lib/jvm/temurin-*") if find(home + "/bin/javac")]
    kinds = ("", "-XX:+UseParallelGC -Xmx256m", "-XX:+UseZGC", "-XX:+UseTransparentHugePages")
    for i, home in enumerate(homes or ["/usr/lib/jvm/java-1.*-openjdk-*"]):
        for flags in kinds if i == 0 else kinds[:1]:
            yield Row(f"JUnit on a JVM, {os.path.basename(find(home)) or home} {flags}".strip(),
                      home + "/bin/javac /usr/share/java/junit-platform-console.jar", JUNIT, JUNIT_FILES,
                      env={"JAVA": find(home), "FLAGS": flags})


ROWS = [
    PYTEST, NODE,
    Row("go test with the race detector", f"{GO} gcc", r"""
export PATH=$(dirname $GO):$PATH GOPROXY=off GOFLAGS=-mod=mod GOTOOLCHAIN=local CGO_ENABLED=1
go vet . && go test -count=1 -race -coverprofile=/tmp/cover . && ! go test -race ./race >race.log 2>&1; grep -q 'DATA RACE' race.log""",
        GO_FILES, env={"GO": find(GO)}, wall_s=400),
    Row("cargo test, with documentation tests", "cargo rustc gcc", "cargo test --offline -j2", CARGO_FILES, wall_s=400),
    *java_rows(),
    Row("cmake and ctest, in parallel", "cmake ctest gcc make", r"""
cmake -S . -B build -DCMAKE_C_COMPILER=gcc >log 2>&1 && cmake --build build -j2 >>log 2>&1 && ctest --test-dir build -j4 --output-on-failure --timeout 20 &&
! ctest --test-dir build -R red -C Red >/dev/null""", {
        "CMakeLists.txt": "cmake_minimum_required(VERSION 3.5)\nproject(x C)\nenable_testing()\nadd_executable(a a.c)\n"
                          "foreach(n 1 2 3 4)\nadd_test(NAME green${n} COMMAND a 0)\nendforeach()\n"
                          "add_test(NAME red COMMAND a 1 CONFIGURATIONS Red)\n",
        "a.c": "#include <stdlib.h>\nint main(int c, char **v) { return c > 1 ? atoi(v[1]) : 0; }\n"}),
]

with Tap() as tap:
    run_rows(tap, ROWS)
