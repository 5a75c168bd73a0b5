#!/usr/bin/python3
# deadline: 600
"""A Maven project whose dependencies and plugins are a layer: fetched outside of the jail by mvn itself, by this machine's
configuration of it, then mvn -o in the jail, where there is no network."""
import os
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from jail import Jail, modes  # noqa: E402
from tap import Tap  # noqa: E402

POM = """<project>
<modelVersion>4.0.0</modelVersion><groupId>x</groupId><artifactId>x</artifactId><version>1</version>
<properties><maven.compiler.source>17</maven.compiler.source><maven.compiler.target>17</maven.compiler.target>
<project.build.sourceEncoding>UTF-8</project.build.sourceEncoding></properties>
<dependencies><dependency><groupId>junit</groupId><artifactId>junit</artifactId><version>4.13.2</version><scope>test</scope></dependency></dependencies>
</project>
"""
FILES = {
    "pom.xml": POM,
    "src/main/java/A.java": "public class A { static int two() { return 2; } }\n",
    "src/test/java/ATest.java": """import static org.junit.Assert.*;
import java.net.*;
public class ATest {
    @org.junit.Test public void two() { assertEquals(2, A.two()); }
    @org.junit.Test public void loopback() throws Exception {
        try (ServerSocket s = new ServerSocket(0, 1, InetAddress.getLoopbackAddress()); Socket c = new Socket(s.getInetAddress(), s.getLocalPort())) {
            assertTrue(c.isConnected());
        }
    }
}
""",
}


def write(top, files):
    for name, text in files.items():
        path = os.path.join(top, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)


def offline(t, jail, repository):
    """mvn -o with that repository as a layer below HOME."""
    home = os.path.join(jail.store, "deps/maven/home/.m2/repository")
    shutil.copytree(repository, home)
    layers = [*jail.layer("deps/maven/home", {}, home=True), *jail.layer("base/maven/tree", FILES), *jail.stores()]

    def mvn(script):
        log = os.path.join(jail.scratch, "log")
        result = jail.run("/bin/sh", "-c", script, timeout=300, options=[*layers, "--log", log, "--log-bytes", "1000000", "--wall", "200000"])
        with open(log, encoding="utf-8", errors="replace") as file:
            result.out = file.read()
        return result
    result = mvn("mvn -B -o test")
    t.ok(result.status == 0 and "Tests run: 2, Failures: 0" in result.out, f"{jail.mode}: mvn -o test", result.text())
    result = mvn("sed -i 's/return 2/return 3/' src/main/java/A.java && mvn -B -o test")
    t.ok(result.status == 1 and "Failures: 1" in result.out, f"{jail.mode}: and red where a test is", result.text())
    result = mvn("mvn -B test -Dmaven.repo.local=/tmp/none")
    t.ok(result.status == 1 and "BUILD FAILURE" in result.out, f"{jail.mode}: without the layer there is nothing to be had",
         result.text())


def main():
    with Tap() as t, tempfile.TemporaryDirectory(prefix="maven-") as top:
        if not shutil.which("mvn"):
            t.skip("mvn -o test", "maven is not installed: tests/setup full installs it")
            return
        write(top, FILES)
        done = subprocess.run(["mvn", "-B", "-q", "-Dmaven.repo.local=" + os.path.join(top, "m2"), "test"], cwd=top, capture_output=True, text=True,
                              timeout=300, check=False)
        if done.returncode != 0 and "Could not transfer" in done.stdout:
            t.skip("mvn -o test", "this machine's mvn reaches no repository: " + done.stdout[:300].replace("\n", " "))
            return
        t.equal(done.returncode, 0, "mvn fetches what the project needs, outside", done.stdout + done.stderr)
        for mode in modes():
            with Jail(mode) as jail:
                offline(t, jail, os.path.join(top, "m2"))


main()
