#!/usr/bin/python3
# deadline: 120
"""The ready examples in hooks/maintain: every one is a task that agent maintain reads, and those that need no registry are run. The
others are in tests/full/maintain-updates.py."""
import json
import os
import shutil
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
import examples  # noqa: E402
from e2e import Place, edit, submit  # noqa: E402
from tap import Tap  # noqa: E402

with Tap() as t, Place() as place:
    files = {}
    for name in examples.names():
        with open(os.path.join(examples.EXAMPLES, name + ".md"), encoding="utf-8") as f:
            files[f".agent/maintain/{name}.md"] = f.read()
    repo = place.repository({"a.txt": "a\n", **files}, name="all", test="true")
    listed = place.agent("maintain", "--list", "--json", "-c", "maintain.fromRepository=yes", "-c", "maintain.network=registries",
                         cwd=repo)
    tasks = {task["task"]: task for task in json.loads(listed.out)} if listed.status == 0 else {}
    t.equal(sorted(tasks), examples.names(), "each example is a task", listed.text)
    t.equal([name for name in tasks if name.startswith("update-") and tasks[name]["kind"] != "command"], [],
            "the updates are commands")
    t.equal(tasks.get("fix-nightly", {}).get("kind"), "prompt", "the nightly test is for a model")
    refused = place.agent("maintain", "update-cargo", "-c", "maintain.fromRepository=yes", cwd=repo)
    t.ok(refused.status != 0 and "maintain.network" in refused.text, "no network for a repository's task that the operator did not permit",
         refused.text)

    if shutil.which("clang-format"):
        repo = examples.repository(place, "format-c", {".clang-format": "BasedOnStyle: LLVM\n", "a.c": "int  a( void ){return 0;}\n",
                                                       "d/b.h": "int   b ;\n", "c.txt": "int   c ;\n"})
        done = examples.maintain(place, repo, "format-c")
        t.equal((done.status, examples.result_of(place, repo, "format-c", "a.c"), examples.result_of(place, repo, "format-c", "d/b.h"),
                 examples.result_of(place, repo, "format-c", "c.txt")),
                (0, "int a(void) { return 0; }", "int b;", "int   c ;"), "format-c formats C and nothing else", done.text)
        again = place.repository({".clang-format": "BasedOnStyle: LLVM\n", "a.c": "int b;\n",
                                  ".agent/maintain/format-c.md": files[".agent/maintain/format-c.md"]}, name="formatted", test="true")
        done = examples.maintain(place, again, "format-c")
        t.equal((done.status in (0, 3), place.branches(again)), (True, {}), "and does nothing where all is formatted", done.text)
    else:
        t.skip("format-c", "clang-format is not installed")

    options = examples.toolchain("gofmt")
    if options is not None:
        repo = examples.repository(place, "format-go", {"a.go": "package  a\nfunc  A( ) int{return 0}\n"})
        done = examples.maintain(place, repo, "format-go", *options)
        t.equal((done.status, examples.result_of(place, repo, "format-go", "a.go")), (0, "package a\n\nfunc A() int { return 0 }"),
                "format-go formats Go", done.text)
    else:
        t.skip("format-go", "gofmt is not installed")

    repo = examples.repository(place, "regenerate", {
        "Makefile": "generate:\n\tsort words > sorted\n\tcc -c -o t.o t.c\n", "words": "b\na\n", "sorted": "b\n",
        "t.c": "int t;\n", ".gitignore": "*.o\n"}, test="test -f sorted")
    done = examples.maintain(place, repo, "regenerate")
    t.equal((done.status, examples.result_of(place, repo, "regenerate", "sorted")), (0, "a\nb"), "regenerate runs make generate", done.text)

    repo = examples.repository(place, "fix-nightly", {"check.sh": "#!/bin/sh\ngrep -q 2099 year\n", "year": "2020\n"}, test="sh check.sh")
    model = place.recording([[edit("year", "2020", "2099"), submit("Let the test hold in any year")]])
    done = examples.maintain(place, repo, "fix-nightly", "--model", model)
    t.equal((done.status, examples.result_of(place, repo, "fix-nightly", "year")), (0, "2099"), "fix-nightly lets a model mend the test",
            done.text)
