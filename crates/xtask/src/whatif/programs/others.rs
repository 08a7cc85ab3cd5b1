//! Programs that came after most of the replay's rules were made (`cargo xtask whatif --set others`). Rules on packets,
//! messages and repetitions were made with them. They use the loopback interface only, with fixed ports from 18053 on.

use super::{ALL, Program};

/// Writes the configuration of an nginx with one worker, at port 18080.
macro_rules! nginx_conf {
    () => {
        r#"echo 'daemon off; user root; pid nginx.pid; worker_processes 1; events {}
http { access_log off; server { listen 127.0.0.1:18080; location / { return 200 "hello"; } } }' >nginx.conf
"#
    };
}

pub(crate) const OTHERS: &[Program] = &[
    Program {
        name: "wrk",
        what: "nginx with 1 worker, wrk with 16 connections",
        needs: &[("nginx", "nginx"), ("wrk", "wrk")],
        tasks: &["nginx", "wrk"],
        writers: ALL,
        begins_s: 2,
        script: concat!(
            nginx_conf!(),
            r#"nginx -p $PWD/ -e error.log -c nginx.conf & sleep 0.5
exec wrk -t2 -c16 -d100000s http://127.0.0.1:18080/"#
        ),
        clients: None,
    },
    Program {
        name: "memcached",
        what: "memcached with 2 threads, memcslap with 8 clients",
        needs: &[("memcached", "memcached"), ("memcslap", "libmemcached-tools")],
        tasks: &["memcached", "mc-", "memcslap", "sh-"],
        writers: ALL,
        begins_s: 2,
        script: "memcached -u root -l 127.0.0.1 -p 18211 -t 2 & sleep 0.5
                 while :; do memcslap -s 127.0.0.1:18211 --concurrency=8 --test=get --execute-number=20000; done",
        clients: None,
    },
    Program {
        name: "haproxy",
        what: "haproxy with 2 threads before nginx, wrk with 8 connections",
        needs: &[("haproxy", "haproxy"), ("nginx", "nginx"), ("wrk", "wrk")],
        tasks: &["haproxy", "nginx", "wrk"],
        writers: ALL,
        begins_s: 3,
        script: concat!(
            nginx_conf!(),
            r#"cat >haproxy.cfg <<'END'
global
 nbthread 2
defaults
 mode http
 timeout client 10s
 timeout server 10s
 timeout connect 5s
frontend f
 bind 127.0.0.1:18090
 default_backend b
backend b
 server s 127.0.0.1:18080
END
nginx -p $PWD/ -e error.log -c nginx.conf & haproxy -f haproxy.cfg & sleep 1
exec wrk -t1 -c8 -d100000s http://127.0.0.1:18090/"#
        ),
        clients: None,
    },
    Program {
        name: "iperf",
        what: "iperf3, 1 TCP connection",
        needs: &[("iperf3", "iperf3")],
        tasks: &["iperf3"],
        writers: ALL,
        begins_s: 2,
        script: "iperf3 -s -B 127.0.0.1 -p 18091 & sleep 0.5; exec iperf3 -c 127.0.0.1 -p 18091 -t 86400",
        clients: None,
    },
    Program {
        name: "ffmpeg",
        what: "ffmpeg, MPEG-4 of a test picture, 2 threads",
        needs: &[("ffmpeg", "ffmpeg")],
        tasks: &["ffmpeg", "vf#", "af#", "enc", "dec", "dmx", "mux", "sch"],
        writers: ALL,
        begins_s: 1,
        script: "exec ffmpeg -loglevel quiet -f lavfi -i testsrc2=size=1280x720:rate=30 -c:v mpeg4 -threads 2 -f null -",
        clients: None,
    },
    Program {
        name: "node-wrk",
        what: "a Node.js HTTP server, wrk with 8 connections",
        needs: &[("node", "nodejs"), ("wrk", "wrk")],
        tasks: &["node", "libuv", "MainThread", "wrk"],
        writers: ALL,
        begins_s: 5,
        script: r#"echo 'require("http").createServer((ask, reply) => reply.end("hello")).listen(18082, "127.0.0.1")' >server.js
node server.js & sleep 3; exec wrk -t1 -c8 -d100000s http://127.0.0.1:18082/"#,
        clients: None,
    },
    Program {
        name: "mariadb",
        what: "MariaDB, sysbench oltp_read_only with 4 threads",
        needs: &[
            ("mariadbd", "mariadb-server"),
            ("mariadb-install-db", "mariadb-server"),
            ("mariadb", "mariadb-client"),
            ("sysbench", "sysbench"),
        ],
        tasks: &["mariadbd", "sysbench"],
        writers: ALL,
        begins_s: 15,
        script: r#"mariadb-install-db --no-defaults --user=root --datadir=$PWD/data
mariadbd --no-defaults --user=root --datadir=$PWD/data --socket=$PWD/socket --skip-networking --pid-file=$PWD/pid & sleep 4
mariadb --no-defaults -S $PWD/socket -e 'create database sbtest; create user sb@localhost; grant all on *.* to sb@localhost'
bench="sysbench oltp_read_only --mysql-socket=$PWD/socket --mysql-user=sb --tables=1 --table-size=10000"
$bench prepare; exec $bench --threads=4 --time=100000 run"#,
        clients: None,
    },
    Program {
        name: "tar-zstd",
        what: "tar and zstd with 2 threads at a pipe, again and again",
        needs: &[("tar", "tar"), ("zstd", "zstd")],
        tasks: &["tar", "zstd", "sh-"],
        writers: ALL,
        begins_s: 2,
        script: "while :; do tar cf - -C /usr/lib . | zstd -3 -T2 >/dev/null; done",
        clients: None,
    },
    Program {
        name: "dns",
        what: "unbound with 2 threads, dnsperf with 4 clients",
        needs: &[("unbound", "unbound"), ("dnsperf", "dnsperf")],
        tasks: &["unbound", "dnsperf"],
        writers: ALL,
        begins_s: 2,
        script: r#"cat >unbound.conf <<END
server:
 interface: 127.0.0.1
 port: 18053
 num-threads: 2
 do-daemonize: no
 username: ""
 chroot: ""
 directory: "$PWD"
 pidfile: "$PWD/unbound.pid"
 local-zone: "ex." static
 local-data: "a.ex. A 1.2.3.4"
 use-syslog: no
 access-control: 127.0.0.0/8 allow
remote-control:
 control-enable: no
END
echo 'a.ex A' >queries
unbound -d -c unbound.conf & sleep 1; exec dnsperf -s 127.0.0.1 -p 18053 -d queries -l 100000 -c 4"#,
        clients: None,
    },
    Program {
        name: "echo",
        what: "Python asyncio, an echo server and 8 clients",
        needs: &[("python3", "python3")],
        tasks: &["python3"],
        writers: ALL,
        begins_s: 2,
        script: r#"cat >server.py <<'END'
import asyncio
async def serve(reader, writer):
    while data := await reader.read(100):
        writer.write(data)
        await writer.drain()
async def main():
    await (await asyncio.start_unix_server(serve, "socket")).serve_forever()
asyncio.run(main())
END
cat >client.py <<'END'
import asyncio
async def ask():
    reader, writer = await asyncio.open_unix_connection("socket")
    while True:
        writer.write(b"x" * 50)
        await writer.drain()
        await reader.read(100)
async def main():
    await asyncio.gather(*[ask() for _ in range(8)])
asyncio.run(main())
END
python3 server.py & sleep 1; exec python3 client.py"#,
        clients: None,
    },
    Program {
        name: "ruby",
        what: "Ruby, 4 threads at a queue of 4",
        needs: &[("ruby", "ruby")],
        tasks: &["ruby", "queue.rb"],
        writers: ALL,
        begins_s: 2,
        script: r"echo 'q = SizedQueue.new(4); 4.times { Thread.new { while q.pop do (1..200).reduce(:*) end } }
loop { q << 1 }' >queue.rb
exec ruby queue.rb",
        clients: None,
    },
    Program {
        name: "7z",
        what: "7z b with 2 threads, again and again",
        needs: &[("7z", "7zip")],
        tasks: &["7z", "sh-"],
        writers: ALL,
        begins_s: 2,
        script: "while :; do 7z b 1 -mmt2 -md20; done",
        clients: None,
    },
    Program {
        name: "php",
        what: "PHP's own server, ab with 4 connections",
        needs: &[("php", "php-cli"), ("ab", "apache2-utils")],
        tasks: &["php", "ab-"],
        writers: ALL,
        begins_s: 2,
        script: r"echo '<?php $s = 0; for ($i = 0; $i < 20000; $i++) $s += $i; echo $s;' >index.php
php -S 127.0.0.1:18084 -t . & sleep 1; exec ab -q -c 4 -t 100000 -n 100000000 http://127.0.0.1:18084/index.php",
        clients: None,
    },
    Program {
        name: "fio",
        what: "fio, 3 processes read a file of 64 MB at random",
        needs: &[("fio", "fio")],
        tasks: &["fio"],
        writers: ALL,
        begins_s: 3,
        script: "exec fio --name=r --rw=randread --bs=4k --size=64m --filename=$PWD/data --ioengine=psync --numjobs=3 \
                 --time_based --runtime=100000",
        clients: None,
    },
    Program {
        name: "ssh",
        what: "ssh to this machine, cat of zeros",
        needs: &[("sshd", "openssh-server"), ("ssh", "openssh-client"), ("ssh-keygen", "openssh-client")],
        tasks: &["ssh", "cat-"],
        writers: ALL,
        begins_s: 3,
        script: r#"mkdir -p /run/sshd; ssh-keygen -q -t ed25519 -N "" -f key; cp key.pub keys; chmod 600 keys
$(command -v sshd) -D -f /dev/null -p 18022 -o ListenAddress=127.0.0.1 -h $PWD/key -o AuthorizedKeysFile=$PWD/keys \
 -o StrictModes=no -o UsePAM=no -o PidFile=$PWD/pid & sleep 1
ssh -F /dev/null -p 18022 -i key -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null 127.0.0.1 cat /dev/zero >/dev/null"#,
        clients: None,
    },
    Program {
        name: "perl",
        what: "Perl, two processes at a pipe",
        needs: &[("perl", "perl")],
        tasks: &["perl"],
        writers: ALL,
        begins_s: 1,
        script: r#"cat >pipe.pl <<'END'
pipe(R, W);
if (fork) { close R; $| = 1; while (1) { my $x = 0; $x += $_ for 1..2000; syswrite W, "$x" x 16; } }
else { close W; my $b; while (sysread R, $b, 4096) { my $h = 0; $h += ord for split //, $b; } }
END
exec perl pipe.pl"#,
        clients: None,
    },
    Program {
        name: "curl",
        what: "nginx, and a new curl for each page",
        needs: &[("nginx", "nginx"), ("curl", "curl")],
        tasks: &["nginx", "curl", "sh-"],
        writers: ALL,
        begins_s: 2,
        script: concat!(
            nginx_conf!(),
            r#"nginx -p $PWD/ -e error.log -c nginx.conf & sleep 0.5
while :; do curl -s http://127.0.0.1:18080/; done"#
        ),
        clients: None,
    },
    Program {
        name: "xargs",
        what: "find and xargs -P3 md5sum, again and again",
        needs: &[("find", "findutils"), ("xargs", "findutils"), ("md5sum", "coreutils")],
        tasks: &["find", "xargs", "md5sum", "sh-"],
        writers: ALL,
        begins_s: 2,
        script: "while :; do find /usr/lib -type f | xargs -P3 -n8 md5sum; done",
        clients: None,
    },
    Program {
        name: "varnish",
        what: "Varnish before nginx, wrk with 8 connections",
        needs: &[("varnishd", "varnish"), ("nginx", "nginx"), ("wrk", "wrk"), ("gcc", "gcc")],
        tasks: &["varnish", "cache-", "vcache", "acceptor", "nginx", "wrk"],
        writers: ALL,
        begins_s: 11,
        script: concat!(
            nginx_conf!(),
            r#"printf 'vcl 4.0;\nbackend default { .host = "127.0.0.1"; .port = "18080"; }\n' >cache.vcl; chmod 755 .
nginx -p $PWD/ -e error.log -c nginx.conf &
varnishd -F -j none -n $PWD/work -a 127.0.0.1:18092 -f $PWD/cache.vcl -s malloc,32m & sleep 8
exec wrk -t1 -c8 -d100000s http://127.0.0.1:18092/"#
        ),
        clients: None,
    },
    Program {
        name: "python-http",
        what: "Python's http.server, ab with 4 connections",
        needs: &[("python3", "python3"), ("ab", "apache2-utils")],
        tasks: &["python3", "ab-"],
        writers: ALL,
        begins_s: 2,
        script: r"echo 'a.ex A' >page.txt; python3 -m http.server 18081 --bind 127.0.0.1 & sleep 1
exec ab -q -c 4 -t 100000 -n 100000000 http://127.0.0.1:18081/page.txt",
        clients: None,
    },
    Program {
        name: "memory",
        what: "sysbench memory, 4 threads",
        needs: &[("sysbench", "sysbench")],
        tasks: &["sysbench"],
        writers: ALL,
        begins_s: 2,
        script: "exec sysbench memory --threads=4 --time=100000 --memory-total-size=1000T run",
        clients: None,
    },
    Program {
        name: "mutex",
        what: "sysbench mutex, 4 threads at 8 mutexes, again and again",
        needs: &[("sysbench", "sysbench")],
        tasks: &["sysbench", "sh-"],
        writers: ALL,
        begins_s: 2,
        script: "while :; do sysbench mutex --threads=4 --mutex-num=8 --mutex-locks=2000 run; done",
        clients: None,
    },
];

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::super::{FRESH, LATER, PROGRAMS};
    use super::*;

    /// `--only` and the recordings' files name programs.
    #[test]
    fn names_are_of_one_program_each() {
        let all: Vec<&str> =
            PROGRAMS.iter().chain(OTHERS).chain(FRESH).chain(LATER).map(|program| program.name).collect();
        let different: BTreeSet<&str> = all.iter().copied().collect();
        assert_eq!(all.len(), different.len(), "{all:?}");
    }
}
