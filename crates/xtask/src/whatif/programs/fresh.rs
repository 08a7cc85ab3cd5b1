//! Programs that no rule of the replay was made with when they were added (`cargo xtask whatif --set fresh`). They use
//! the loopback interface only, with fixed ports from 18101 on.

use super::{ALL, Program};

pub(crate) const FRESH: &[Program] = &[
    Program {
        name: "lighttpd",
        what: "lighttpd, siege with 8 threads",
        needs: &[("lighttpd", "lighttpd"), ("siege", "siege")],
        tasks: &["lighttpd", "siege"],
        writers: ALL,
        begins_s: 2,
        script: r#"echo hello >page.txt
printf 'server.document-root = "%s"\nserver.port = 18101\nserver.bind = "127.0.0.1"\n' "$PWD" >lighttpd.conf
lighttpd -D -f lighttpd.conf & sleep 1; HOME=$PWD exec siege -b -q -c 8 -t 86400S http://127.0.0.1:18101/page.txt"#,
        clients: None,
    },
    Program {
        name: "knot",
        what: "Knot DNS with 2 UDP workers, dnsperf with 8 clients",
        needs: &[("knotd", "knot"), ("dnsperf", "dnsperf")],
        tasks: &["knotd", "dnsperf"],
        writers: ALL,
        begins_s: 3,
        script: r"printf '$ORIGIN ex.\n@ SOA a b 1 2 3 4 5\n@ NS a\na A 1.2.3.4\n' >ex.zone; echo 'a.ex A' >queries
cat >knot.conf <<END
server:
  listen: 127.0.0.1@18103
  rundir: $PWD
  udp-workers: 2
database:
  storage: $PWD
zone:
  - domain: ex
    file: $PWD/ex.zone
END
knotd -c knot.conf & sleep 2; exec dnsperf -s 127.0.0.1 -p 18103 -d queries -l 100000 -c 8",
        clients: None,
    },
    Program {
        name: "bind",
        what: "BIND 9 with 2 threads, dnsperf with 4 clients",
        needs: &[("named", "bind9"), ("dnsperf", "dnsperf")],
        tasks: &["named", "isc-", "dnsperf"],
        writers: ALL,
        begins_s: 3,
        script: r#"printf '$TTL 60\n$ORIGIN ex.\n@ SOA a.ex. b.ex. 1 2 3 4 5\n@ NS a\na A 1.2.3.4\n' >ex.zone; echo 'a.ex A' >queries
cat >named.conf <<END
options { directory "$PWD"; listen-on port 18104 { 127.0.0.1; }; listen-on-v6 { none; }; recursion no; pid-file "$PWD/pid";
 session-keyfile "$PWD/key"; dnssec-validation no; };
controls { };
zone "ex" { type master; file "$PWD/ex.zone"; };
END
named -g -n 2 -p 18104 -c $PWD/named.conf & sleep 2; exec dnsperf -s 127.0.0.1 -p 18104 -d queries -l 100000 -c 4"#,
        clients: None,
    },
    Program {
        name: "beanstalk",
        what: "beanstalkd, a Python producer and 2 Python workers",
        needs: &[("beanstalkd", "beanstalkd"), ("python3", "python3")],
        tasks: &["beanstalkd", "python3"],
        writers: ALL,
        begins_s: 2,
        script: r#"cat >side.py <<'END'
import hashlib, socket, sys
stream = socket.create_connection(("127.0.0.1", 18105)).makefile("rwb")
def ask(command, body=None):
    stream.write(command + b"\r\n" + (body + b"\r\n" if body is not None else b"")); stream.flush()
    return stream.readline().split()
if sys.argv[1] == "work":
    while True:
        reply = ask(b"reserve"); body = stream.read(int(reply[2]) + 2)[:-2]
        for _ in range(20): body = hashlib.sha256(body * 50).digest()
        ask(b"delete " + reply[1])
else:
    while True:
        for _ in range(50): ask(b"put 0 0 60 500", b"x" * 500)
        while True:
            stream.write(b"stats\r\n"); stream.flush()
            text = stream.read(int(stream.readline().split()[1]) + 2)
            if int(text.split(b"current-jobs-ready: ")[1].split(b"\n")[0]) < 50: break
END
beanstalkd -l 127.0.0.1 -p 18105 & sleep 0.5; python3 side.py work & python3 side.py work & exec python3 side.py put"#,
        clients: None,
    },
    Program {
        name: "squid",
        what: "Squid before lighttpd, ab with 4 connections",
        needs: &[("squid", "squid"), ("lighttpd", "lighttpd"), ("ab", "apache2-utils")],
        tasks: &["squid", "lighttpd", "ab-"],
        writers: ALL,
        begins_s: 6,
        script: r#"echo hello >page.txt; chmod 777 .
printf 'server.document-root = "%s"\nserver.port = 18106\nserver.bind = "127.0.0.1"\n' "$PWD" >lighttpd.conf
cat >squid.conf <<END
http_port 127.0.0.1:18107
http_access allow all
cache deny all
access_log none
cache_log /dev/null
pid_filename $PWD/squid.pid
coredump_dir $PWD
END
lighttpd -D -f lighttpd.conf & squid -N -f squid.conf & sleep 4
exec ab -q -X 127.0.0.1:18107 -c 4 -t 100000 -n 100000000 http://127.0.0.1:18106/page.txt"#,
        clients: None,
    },
    Program {
        name: "erlang",
        what: "Erlang, 30 processes pass 6 messages around a ring",
        needs: &[("erl", "erlang-base")],
        tasks: &["1_scheduler", "2_scheduler", "1_dirty", "2_dirty", "erts", "beam", "erl", "aux", "async"],
        writers: &[],
        begins_s: 4,
        script: r"cat >ring.erl <<'END'
-module(ring).
-export([run/0]).
member(Next) -> receive M -> L = lists:seq(1, 300), S = lists:sum([X * M || X <- L]), Next ! (S rem 7) + 1, member(Next) end.
run() -> First = self(), Last = lists:foldl(fun(_, Next) -> spawn(fun() -> member(Next) end) end, First, lists:seq(1, 29)),
 [Last ! K || K <- lists:seq(1, 6)], member(Last).
END
erlc ring.erl && exec erl -noshell -s ring run",
        clients: None,
    },
    Program {
        name: "magick",
        what: "ImageMagick with OpenMP, a new process for each picture",
        needs: &[("convert", "imagemagick")],
        tasks: &["convert", "sh-"],
        writers: &[],
        begins_s: 2,
        script: "while :; do convert -size 400x400 plasma: -blur 0x3 -resize 600x600 null:; done",
        clients: None,
    },
    Program {
        name: "graphviz",
        what: "awk and dot at a pipe, again and again",
        needs: &[("dot", "graphviz"), ("awk", "gawk")],
        tasks: &["dot", "awk", "gawk", "seq", "sh-"],
        writers: ALL,
        begins_s: 2,
        script: r#"while :; do seq 60 | awk 'BEGIN { print "digraph {" } { print $1 " -> " ($1 * 7) % 61 } END { print "}" }' | dot -Tsvg >/dev/null; done"#,
        clients: None,
    },
    Program {
        name: "x264",
        what: "x264 with 3 threads, of raw zeros",
        needs: &[("x264", "x264")],
        tasks: &["x264"],
        writers: &[],
        begins_s: 2,
        script: "exec x264 --quiet --threads 3 --demuxer raw --input-res 640x360 --fps 25 --frames 100000000 -o /dev/null /dev/zero",
        clients: None,
    },
    Program {
        name: "pipeline",
        what: "seq, awk, sort and uniq at pipes, again and again",
        needs: &[("seq", "coreutils"), ("awk", "gawk"), ("sort", "coreutils")],
        tasks: &["seq", "awk", "gawk", "sort", "uniq", "tail", "sh-"],
        writers: ALL,
        begins_s: 1,
        script: "while :; do seq 100000 | awk '{ print ($1 * 7919) % 100003 }' | sort -n | uniq -c | tail -n 1; done",
        clients: None,
    },
    Program {
        name: "java-http",
        what: "Java's own HTTP server with 3 threads, ab with 6 connections",
        needs: &[("java", "default-jre-headless"), ("javac", "default-jdk-headless"), ("ab", "apache2-utils")],
        tasks: &[
            "java",
            "pool-1",
            "HTTP-",
            "Thread",
            "G1",
            "C2",
            "C1",
            "VM",
            "GC",
            "Monitor",
            "Signal",
            "Reference",
            "Finalizer",
            "ab-",
        ],
        writers: ALL,
        begins_s: 8,
        script: r#"cat >Web.java <<'END'
import com.sun.net.httpserver.*; import java.net.*; import java.security.*; import java.util.concurrent.*;
public class Web { public static void main(String[] arguments) throws Exception {
 var server = HttpServer.create(new InetSocketAddress("127.0.0.1", 18108), 0);
 server.createContext("/", ask -> { try { var sum = MessageDigest.getInstance("SHA-256"); byte[] data = new byte[10000];
  for (int i = 0; i < 5; i++) sum.update(data); byte[] reply = sum.digest(); ask.sendResponseHeaders(200, reply.length);
  ask.getResponseBody().write(reply); ask.close(); } catch (Exception error) { } });
 server.setExecutor(Executors.newFixedThreadPool(3)); server.start(); } }
END
javac Web.java && java Web & sleep 5; exec ab -q -k -c 6 -t 100000 -n 100000000 http://127.0.0.1:18108/"#,
        clients: None,
    },
    Program {
        name: "java-streams",
        what: "Java, parallel streams in the common pool",
        needs: &[("java", "default-jre-headless"), ("javac", "default-jdk-headless")],
        tasks: &[
            "java",
            "ForkJoin",
            "Thread",
            "G1",
            "C2",
            "C1",
            "VM",
            "GC",
            "Monitor",
            "Signal",
            "Reference",
            "Finalizer",
        ],
        writers: ALL,
        begins_s: 5,
        script: r#"cat >Streams.java <<'END'
import java.io.*; import java.util.stream.*;
public class Streams { public static void main(String[] arguments) throws Exception {
 var done = new FileOutputStream("/dev/null");
 while (true) { double sum = IntStream.range(0, 300000).parallel().mapToDouble(i -> Math.sqrt(i) * Math.sin(i)).sum();
  done.write((int) sum); } } }
END
javac Streams.java && exec java -Djava.util.concurrent.ForkJoinPool.common.parallelism=3 Streams"#,
        clients: None,
    },
    Program {
        name: "openmp",
        what: "C with OpenMP, 3 threads at barriers",
        needs: &[("gcc", "gcc")],
        tasks: &["grid"],
        writers: ALL,
        begins_s: 2,
        script: r#"cat >grid.c <<'END'
#include <stdio.h>
#include <unistd.h>
static double a[1 << 20], b[1 << 20];
int main(void) { for (;;) { for (int k = 0; k < 20; k++) {
#pragma omp parallel for
  for (int i = 1; i < (1 << 20) - 1; i++) b[i] = (a[i - 1] + a[i] + a[i + 1]) / 3 + i % 7;
#pragma omp parallel for
  for (int i = 1; i < (1 << 20) - 1; i++) a[i] = b[i] / 2; }
 if (write(1, "x", 1) < 0) return 1; } }
END
gcc -O2 -fopenmp -o grid grid.c && OMP_NUM_THREADS=3 exec ./grid"#,
        clients: None,
    },
    Program {
        name: "gil",
        what: "Python, 3 threads that compute with one interpreter lock",
        needs: &[("python3", "python3")],
        tasks: &["python3"],
        writers: ALL,
        begins_s: 1,
        script: r#"cat >gil.py <<'END'
import os, threading
def work():
    while True:
        sum(range(20000)); os.write(1, b"x")
for _ in range(2): threading.Thread(target=work).start()
work()
END
exec python3 gil.py"#,
        clients: None,
    },
    Program {
        name: "rsync",
        what: "rsync of a folder to a new one, again and again",
        needs: &[("rsync", "rsync")],
        tasks: &["rsync", "rm-", "sh-"],
        writers: ALL,
        begins_s: 1,
        script: "while :; do rsync -a --no-whole-file /usr/include/ copy/; rm -rf copy; done",
        clients: None,
    },
    Program {
        name: "tls",
        what: "openssl s_server, a new TLS connection each time",
        needs: &[("openssl", "openssl")],
        tasks: &["openssl", "sh-"],
        writers: ALL,
        begins_s: 3,
        script: r"openssl req -x509 -newkey rsa:2048 -nodes -keyout key -out cert -days 2 -subj /CN=localhost
openssl s_server -quiet -accept 127.0.0.1:18109 -key key -cert cert -www & sleep 1
while :; do openssl s_time -connect 127.0.0.1:18109 -new -time 60; done",
        clients: None,
    },
    Program {
        name: "node-workers",
        what: "Node.js, 3 worker threads that answer messages",
        needs: &[("node", "nodejs")],
        tasks: &["node", "libuv", "MainThread", "WorkerThread"],
        writers: ALL,
        begins_s: 2,
        script: r"cat >workers.js <<'END'
const { Worker, isMainThread, parentPort } = require('worker_threads'), crypto = require('crypto'), fs = require('fs');
if (isMainThread) for (let i = 0; i < 3; i++) { const worker = new Worker(__filename);
 worker.on('message', sum => { fs.writeSync(1, 'x'); worker.postMessage(sum); }); worker.postMessage('begin'); }
else parentPort.on('message', text => { for (let i = 0; i < 50; i++) text = crypto.createHash('sha256').update(text + 'x'.repeat(2000)).digest('hex');
 parentPort.postMessage(text); });
END
exec node workers.js",
        clients: None,
    },
    Program {
        name: "queue",
        what: "C++, a producer and 3 consumers at a queue with a condition variable",
        needs: &[("g++", "g++")],
        tasks: &["queue"],
        writers: ALL,
        begins_s: 4,
        script: r#"cat >queue.cpp <<'END'
#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>
#include <unistd.h>
std::mutex lock; std::condition_variable filled, emptied; std::deque<int> jobs; volatile double result;
static void compute(int n) { double x = n; for (int i = 0; i < n; i++) x = x * 1.0000001 + 1; result = x; }
static void consume() { for (;;) { int job; { std::unique_lock<std::mutex> held(lock);
   filled.wait(held, [] { return !jobs.empty(); }); job = jobs.front(); jobs.pop_front(); emptied.notify_one(); }
  compute(job); if (write(1, "x", 1) < 0) return; } }
int main() { std::thread a(consume), b(consume), c(consume); for (int k = 0;; k++) { compute(20000); { std::unique_lock<std::mutex> held(lock);
   emptied.wait(held, [] { return jobs.size() < 8; }); jobs.push_back(50000 + k % 5 * 20000); } filled.notify_one(); } }
END
g++ -O2 -pthread -o queue queue.cpp && exec ./queue"#,
        clients: None,
    },
];
