#!/usr/bin/python3
# deadline: 900
"""What tests start beside themselves, in the jail: PostgreSQL on a unix socket and on loopback, a web server, an SSH server, a
headless browser without its own sandbox."""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from compat import Row, find, run_rows  # noqa: E402
from tap import Tap  # noqa: E402

POSTGRES = r"""set -e
export PATH=$PG:$PATH
initdb -D /tmp/pg -A trust --no-sync >/tmp/log 2>&1 || { cat /tmp/log; exit 1; }
pg_ctl -D /tmp/pg -w -t 60 -l /tmp/log -o "-k /tmp -h 127.0.0.1,::1 -p 5433 $FLAGS" start >/dev/null || { cat /tmp/log; exit 1; }
for host in /tmp 127.0.0.1 ::1 localhost; do
	test "$(psql -h $host -p 5433 -d postgres -Atc 'select 6 * 7')" = 42
done
psql -h /tmp -p 5433 -d postgres -qc 'create table t(x int); insert into t select generate_series(1, 20000); create index on t(x)'
test "$(psql -h /tmp -p 5433 -d postgres -Atc 'set max_parallel_workers_per_gather = 2; set parallel_setup_cost = 0;
	select count(*) from t' | tail -n 1)" = 20000
pg_ctl -D /tmp/pg -w -m fast stop >/dev/null
"""

NGINX = r"""set -e
mkdir -p /tmp/n/logs; echo hello >/tmp/n/index.html
cat >/tmp/n/conf <<END
pid /tmp/n/pid; error_log /tmp/n/error; worker_processes 2;
events { }
http { access_log off; client_body_temp_path /tmp/n; proxy_temp_path /tmp/n; fastcgi_temp_path /tmp/n; uwsgi_temp_path /tmp/n;
       scgi_temp_path /tmp/n;
       server { listen 127.0.0.1:80; listen [::1]:8080; root /tmp/n; } }
END
nginx -c /tmp/n/conf -p /tmp/n -e /tmp/n/error
curl -sf http://localhost/ | grep -qx hello; curl -sf 'http://[::1]:8080/' | grep -qx hello
nginx -c /tmp/n/conf -p /tmp/n -e /tmp/n/error -s quit"""

SSH = r"""set -e
mkdir -m 700 /tmp/s; cd /tmp/s; ssh-keygen -q -t ed25519 -N '' -f host; ssh-keygen -q -t ed25519 -N '' -f own; cp own.pub authorized
/usr/sbin/sshd -f /dev/null -h /tmp/s/host -p 2222 -o ListenAddress=127.0.0.1 -o AuthorizedKeysFile=/tmp/s/authorized -o UsePAM=no \
	-o PidFile=/tmp/s/pid -o StrictModes=no -E /tmp/s/log || { cat /tmp/s/log; exit 1; }
ssh -F /dev/null -i own -p 2222 -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -o BatchMode=yes agent@127.0.0.1 'echo $((6*7))' \
	2>err | grep -qx 42 || { cat err log; exit 1; }"""

EXPECT = r"""expect -c 'set timeout 20; spawn bash --norc -i; send "echo \$((6*7)); tty\r"; expect "42" {} timeout {exit 3}
expect -re {/dev/pts/[0-9]+} {} timeout {exit 4}; send "exit 5\r"; expect eof; exit [expr {[lindex [wait] 3] != 5}]' >out || { cat out; exit 1; }"""

BROWSER = r"""set -e
cat >page.html <<END
<p id=a>before</p><script>document.getElementById('a').textContent = 'sum ' + [1, 2, 39].reduce((a, b) => a + b)</script>
END
python3 -m http.server --bind 127.0.0.1 8000 >/dev/null 2>&1 &
for i in $(seq 100); do curl -sf http://127.0.0.1:8000/page.html >/dev/null && break; sleep 0.1; done
chromium --headless --no-sandbox --disable-gpu --user-data-dir=/tmp/c --virtual-time-budget=3000 --dump-dom \
	http://127.0.0.1:8000/page.html >out 2>err || { cat err; exit 1; }
grep -q 'sum 42' out || { cat out err; exit 1; }
chromium --headless --no-sandbox --disable-gpu --user-data-dir=/tmp/c --screenshot=/tmp/shot.png file://$PWD/page.html >out 2>err || { cat err; exit 1; }
head -c 4 /tmp/shot.png | grep -q PNG"""

PG = "/usr/lib/postgresql/*/bin"
ROWS = [
    Row("PostgreSQL on a unix socket, 127.0.0.1, ::1", f"{PG}/initdb {PG}/psql", POSTGRES,
        env={"PG": os.path.dirname(find(PG + "/initdb")), "FLAGS": ""}),
    Row("PostgreSQL with shared memory of System V", f"{PG}/initdb {PG}/psql", POSTGRES,
        env={"PG": os.path.dirname(find(PG + "/initdb")), "FLAGS": "-c shared_memory_type=sysv -c dynamic_shared_memory_type=sysv"}),
    Row("nginx on port 80", "nginx curl", NGINX),
    Row("an SSH server and its client", "sshd ssh ssh-keygen", SSH),
    Row("expect drives a program on a terminal", "expect bash", EXPECT),
    Row("a headless browser, its own sandbox off", "chromium curl python3", BROWSER, wall_s=200),
]

with Tap() as tap:
    run_rows(tap, ROWS)
