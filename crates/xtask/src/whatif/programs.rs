//! The recorded programs, and processes.

mod fresh;
mod later;
mod others;

use std::ffi::OsString;
use std::fs;
use std::iter;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use miette::{IntoDiagnostic, WrapErr, miette};

use super::changes::{Change, Make};
pub(crate) use fresh::FRESH;
pub(crate) use later::LATER;
pub(crate) use others::OTHERS;

/// A program that runs until it is stopped.
#[derive(Debug)]
pub(crate) struct Program {
    pub(crate) name: &'static str,
    /// Description for the page.
    pub(crate) what: &'static str,
    /// Commands that it needs, with Debian's packages.
    pub(crate) needs: &'static [(&'static str, &'static str)],
    /// Prefixes of its tasks' names.
    pub(crate) tasks: &'static [&'static str],
    /// Prefixes of the names of its processes whose written bytes count as its work. None if they write nothing.
    pub(crate) writers: &'static [&'static str],
    /// Time to start, seconds.
    pub(crate) begins_s: u64,
    /// A script for `sh` in an empty folder.
    script: &'static str,
    /// Twice the clients, if they are separate processes.
    pub(crate) clients: Option<Change>,
}

/// All its processes write in proportion to its work.
const ALL: &[&str] = &[""];

pub(crate) const PROGRAMS: &[Program] = &[
    Program {
        name: "redis",
        what: "redis-server and redis-benchmark, 50 clients",
        needs: &[("redis-server", "redis-server"), ("redis-benchmark", "redis-tools")],
        tasks: &["redis"],
        writers: &["redis-server"],
        begins_s: 2,
        script: "redis-server --port 0 --unixsocket $PWD/socket --save '' & sleep 0.5
                 exec redis-benchmark -s $PWD/socket -c 50 -n 1000000000 -t get,set",
        clients: Some(Change {
            what: "twice the clients",
            rules: &["comm=redis-benchmark: copies=2"],
            make: Make::Client("exec redis-benchmark -s $PWD/socket -c 50 -n 1000000000 -t get,set"),
        }),
    },
    Program {
        name: "pgbench",
        what: "PostgreSQL, pgbench -S, 4 clients",
        needs: &[("pgbench", "postgresql"), ("runuser", "util-linux")],
        tasks: &["pgbench", "postgres"],
        writers: &["pgbench"],
        begins_s: 12,
        script: "chmod 755 .; install -d -o postgres data; bin=$(echo /usr/lib/postgresql/*/bin)
                 runuser -u postgres -- $bin/initdb -D data -A trust
                 runuser -u postgres -- $bin/postgres -D data -k $PWD/data -c listen_addresses= -c fsync=off & sleep 2
                 runuser -u postgres -- createdb -h $PWD/data b; runuser -u postgres -- pgbench -h $PWD/data -i -s 2 -q b
                 exec runuser -u postgres -- pgbench -h $PWD/data -c 4 -j 2 -S -T 100000 -l --log-prefix=$PWD/data/log b",
        clients: Some(Change {
            what: "twice the clients",
            rules: &["comm=pgbench: copies=2", "comm=postgres: copies=2"],
            make: Make::Client("exec runuser -u postgres -- pgbench -h $PWD/data -c 4 -j 2 -S -T 100000 -l --log-prefix=$PWD/data/log b"),
        }),
    },
    Program {
        name: "hackbench",
        what: "hackbench -g 1, 40 processes at sockets",
        needs: &[("hackbench", "rt-tests")],
        tasks: &["hackbench"],
        writers: ALL,
        begins_s: 1,
        script: "exec hackbench -g 1 -l 100000000",
        clients: None,
    },
    Program {
        name: "pool",
        what: "Python, multiprocessing.Pool of 3 processes",
        needs: &[("python3", "python3")],
        tasks: &["python3"],
        writers: ALL,
        begins_s: 1,
        script: r#"cat >pool.py <<'END'
import hashlib, multiprocessing
def work(index): return hashlib.sha256(b"x" * 4000000).digest()
if __name__ == "__main__":
    with multiprocessing.Pool(3) as pool:
        while True: pool.map(work, range(64), chunksize=1)
END
exec python3 pool.py"#,
        clients: None,
    },
    Program {
        name: "go",
        what: "a Go HTTP server and 8 clients in one process",
        needs: &[("go", "golang-go")],
        tasks: &["goserver"],
        writers: ALL,
        begins_s: 20,
        script: r#"cat >main.go <<'END'
package main
import ("crypto/sha256"; "fmt"; "io"; "net"; "net/http")
func main() {
 listener, _ := net.Listen("tcp", "127.0.0.1:0")
 for i := 0; i < 8; i++ { go func() { for {
  reply, err := http.Get("http://" + listener.Addr().String())
  if err == nil { io.Copy(io.Discard, reply.Body); reply.Body.Close() } } }() }
 http.Serve(listener, http.HandlerFunc(func(reply http.ResponseWriter, _ *http.Request) {
  data := make([]byte, 4000); var sum [32]byte
  for i := 0; i < 20; i++ { sum = sha256.Sum256(data); data[0] = sum[0] }
  fmt.Fprintf(reply, "%x", sum) }))
}
END
HOME=$PWD GOFLAGS=-mod=mod go build -o goserver main.go && exec ./goserver"#,
        clients: None,
    },
    Program {
        name: "make",
        what: "make -j4 of 80 C files, again and again",
        needs: &[("make", "make"), ("gcc", "gcc")],
        tasks: &["cc1", "as-", "gcc", "make", "x86_64", "aarch64", "collect2", "sh-"],
        writers: ALL,
        begins_s: 2,
        script: r#"i=0; while [ $i -lt 80 ]; do i=$((i + 1))
printf '#include <stdio.h>\n#include <stdlib.h>\n#include <math.h>\n' >f$i.c
printf 'int f%s(int n){double s=0;for(int i=0;i<n;i++)s+=sqrt(rand());return printf("%%f",s);}\n' $i >>f$i.c
done
printf 'all: $(patsubst %%.c,%%.o,$(wildcard *.c))\n%%.o: %%.c\n\tgcc -O2 -c $< -o $@\n' >Makefile
while :; do make -s -B -j4; done"#,
        clients: None,
    },
    Program {
        name: "java",
        what: "Java, a pool of 4 threads",
        needs: &[("java", "default-jre-headless"), ("javac", "default-jdk-headless")],
        tasks: &["java", "pool-1", "Thread", "G1", "C2", "C1", "VM", "GC", "Monitor", "Signal", "Reference", "Finalizer"],
        writers: ALL,
        begins_s: 5,
        script: r#"cat >Pool.java <<'END'
import java.io.*; import java.security.*; import java.util.concurrent.*;
public class Pool { public static void main(String[] arguments) throws Exception {
 var pool = Executors.newFixedThreadPool(4); var free = new Semaphore(16); var done = new FileOutputStream("/dev/null");
 while (true) { free.acquire(); pool.submit(() -> { try { var sum = MessageDigest.getInstance("SHA-256"); byte[] data = new byte[20000];
  for (int i = 0; i < 10; i++) sum.update(data); sum.digest(); done.write(0); } catch (Exception error) {} free.release(); }); } } }
END
javac Pool.java && exec java Pool"#,
        clients: None,
    },
    Program {
        name: "node",
        what: "a Node.js HTTP server and a client with 8 connections",
        needs: &[("node", "nodejs")],
        tasks: &["node", "libuv", "MainThread", "client"],
        writers: ALL,
        begins_s: 3,
        script: r"cat >server.js <<'END'
const http = require('http'), crypto = require('crypto');
const server = http.createServer((ask, reply) => reply.end(crypto.createHash('sha256').update(Buffer.alloc(8000)).digest('hex')));
server.listen('socket');
END
cat >client.js <<'END'
process.title = 'client';
const http = require('http'), agent = new http.Agent({ keepAlive: true, maxSockets: 8 });
function ask() { http.get({ socketPath: 'socket', agent }, reply => { reply.resume(); reply.on('end', ask); }).on('error', () => setTimeout(ask, 10)); }
for (let i = 0; i < 8; i++) ask();
END
node server.js & sleep 1; exec node client.js",
        clients: Some(Change {
            what: "twice the clients",
            rules: &["comm=client: copies=2"],
            make: Make::Client("exec node client.js"),
        }),
    },
    Program {
        name: "pigz",
        what: "pigz -p 3 of zeros",
        needs: &[("pigz", "pigz")],
        tasks: &["pigz"],
        writers: ALL,
        begins_s: 1,
        script: "exec pigz -p 3 </dev/zero >/dev/null",
        clients: None,
    },
    Program {
        name: "sysbench",
        what: "sysbench threads, 8 threads that yield",
        needs: &[("sysbench", "sysbench")],
        tasks: &["sysbench"],
        writers: &[],
        begins_s: 2,
        script: "exec sysbench threads --threads=8 --time=100000 run",
        clients: None,
    },
];

impl Program {
    /// Missing packages.
    pub(crate) fn lacks(&self) -> Vec<&'static str> {
        let missing = self.needs.iter().filter(|(name, _)| find_program(name).is_none());
        let mut lacks: Vec<_> = missing.map(|(_, package)| *package).collect();
        lacks.dedup();
        lacks
    }

    /// Returns the script for `sh` that runs it.
    pub(crate) fn script_of(&self) -> &'static str {
        self.script
    }

    /// Whether it has a task of this name (`name-pid`).
    pub(crate) fn has(&self, task: &str) -> bool {
        self.tasks.iter().any(|begins| task.starts_with(begins))
    }

    /// Starts it in an empty folder, and waits until it has started.
    pub(crate) fn start(&self, folder: &Path) -> miette::Result<Group> {
        let group = Group::start("sh", &["-c", self.script], folder)?;
        super::wait(Duration::from_secs(self.begins_s), &super::ASKED)?;
        Ok(group)
    }
}

/// Finds a program, Debian's first.
pub(crate) fn find_program(name: &str) -> Option<PathBuf> {
    let path = path();
    let folders = iter::once(PathBuf::from("/usr/bin")).chain(std::env::split_paths(&path));
    folders.map(|folder| folder.join(name)).find(|path| path.is_file())
}

/// Returns the search path for programs, with the daemons' folder, which only root's usually has.
fn path() -> OsString {
    let mut path = std::env::var_os("PATH").unwrap_or_default();
    path.push(":/usr/sbin");
    path
}

/// A process and its descendants, which end with this value.
#[derive(Debug)]
pub(crate) struct Group {
    child: Child,
}

impl Group {
    pub(crate) fn start(program: &str, arguments: &[&str], folder: &Path) -> miette::Result<Self> {
        let mut command = Command::new(program);
        command.args(arguments).current_dir(folder).env("PATH", path()).process_group(0);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let child = command.spawn().into_diagnostic().wrap_err_with(|| format!("cannot start {program}"))?;
        Ok(Self { child })
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn members(&self) -> Vec<u32> {
        let parents: Vec<(u32, u32)> =
            fs::read_dir("/proc").into_iter().flatten().flatten().filter_map(|entry| parent(&entry)).collect();
        let mut members = vec![self.pid()];
        let mut next = 0;
        while let Some(&member) = members.get(next) {
            members.extend(parents.iter().filter(|(_, parent)| *parent == member).map(|(pid, _)| pid));
            next += 1;
        }
        members
    }

    /// Fails if it has ended.
    pub(crate) fn runs(&mut self) -> miette::Result<()> {
        match self.child.try_wait().into_diagnostic()? {
            None => Ok(()),
            Some(status) => Err(miette!("it ended early, with {status}")),
        }
    }

    fn signal(&self, signal: &str) {
        let group = format!("-{}", self.child.id());
        let mut kill = Command::new("kill");
        // The group may have ended.
        let _gone = kill.args(["-s", signal, "--", &group]).stderr(Stdio::null()).status();
    }
}

fn parent(entry: &fs::DirEntry) -> Option<(u32, u32)> {
    let pid = entry.file_name().to_str()?.parse().ok()?;
    let stat = fs::read_to_string(entry.path().join("stat")).ok()?;
    // State and parent follow the name, which may contain parentheses.
    let parent = stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()?;
    Some((pid, parent))
}

impl Drop for Group {
    fn drop(&mut self) {
        self.signal("TERM");
        let began = Instant::now();
        while began.elapsed() < Duration::from_secs(2) && matches!(self.child.try_wait(), Ok(None)) {
            std::thread::sleep(Duration::from_millis(20));
        }
        self.signal("KILL");
        let _ended = self.child.wait();
    }
}
