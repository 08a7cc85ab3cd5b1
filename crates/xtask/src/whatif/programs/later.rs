//! Programs added after the rules for interpreters' locks and for exchanges without events (`cargo xtask whatif --set
//! later`), with other code of these kinds.

use super::{ALL, Program};

pub(crate) const LATER: &[Program] = &[
    Program {
        name: "json-threads",
        what: "Python, 4 threads that write and read JSON with one interpreter lock",
        needs: &[("python3", "python3")],
        tasks: &["python3"],
        writers: ALL,
        begins_s: 1,
        script: r#"cat >json_threads.py <<'END'
import json, os, threading
text = json.dumps([{"number": n, "name": str(n)} for n in range(2000)])
def work():
    while True:
        json.dumps(json.loads(text)); os.write(1, b"x")
for _ in range(3): threading.Thread(target=work).start()
work()
END
exec python3 json_threads.py"#,
        clients: None,
    },
    Program {
        name: "ruby-threads",
        what: "Ruby, 3 threads that compute with one interpreter lock",
        needs: &[("ruby", "ruby")],
        tasks: &["ruby", "threads.rb"],
        writers: ALL,
        begins_s: 1,
        script: r"cat >threads.rb <<'END'
$stdout.sync = true
(1..3).map { Thread.new { loop { (1..30000).reduce(:+); $stdout.syswrite 'x' } } }.each(&:join)
END
exec ruby threads.rb",
        clients: None,
    },
    Program {
        name: "node-parse",
        what: "Node.js, 2 worker threads that parse what the main thread sends, and answer",
        needs: &[("node", "nodejs")],
        tasks: &["node", "libuv", "MainThread", "WorkerThread"],
        writers: ALL,
        begins_s: 2,
        script: r"cat >parse.js <<'END'
const { Worker, isMainThread, parentPort } = require('worker_threads'), fs = require('fs');
const text = JSON.stringify(Array.from({ length: 3000 }, (_, number) => ({ number, name: String(number) })));
if (isMainThread) for (let i = 0; i < 2; i++) { const worker = new Worker(__filename);
 worker.on('message', sum => { fs.writeSync(1, 'x'); worker.postMessage(text + ' '.repeat(sum % 2)); }); worker.postMessage(text); }
else parentPort.on('message', text => parentPort.postMessage(JSON.parse(text).reduce((sum, one) => sum + one.number, 0)));
END
exec node parse.js",
        clients: None,
    },
    Program {
        name: "pipe-workers",
        what: "Python, a process that sends requests to 3 others by pipes, and takes their answers",
        needs: &[("python3", "python3")],
        tasks: &["python3"],
        writers: ALL,
        begins_s: 2,
        script: r#"cat >worker.py <<'END'
import hashlib, os
while True:
    data = os.read(0, 100)
    for _ in range(300): data = hashlib.md5(data).digest()
    os.write(1, data)
END
cat >pipes.py <<'END'
import os, selectors, subprocess, sys
ready = selectors.DefaultSelector()
for _ in range(3):
    worker = subprocess.Popen([sys.executable, "worker.py"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0)
    ready.register(worker.stdout, selectors.EVENT_READ, worker); os.write(worker.stdin.fileno(), b"begin")
while True:
    for key, _ in ready.select():
        data = os.read(key.fd, 100); os.write(1, b"x"); os.write(key.data.stdin.fileno(), data)
END
exec python3 pipes.py"#,
        clients: None,
    },
    Program {
        name: "mailboxes",
        what: "C, a thread that gives work to 3 others by condition variables, and awaits each",
        needs: &[("gcc", "gcc")],
        tasks: &["mailboxes"],
        writers: ALL,
        begins_s: 2,
        script: r#"cat >mailboxes.c <<'END'
#include <pthread.h>
#include <unistd.h>
enum { N = 3 };
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; static pthread_cond_t given[N], done = PTHREAD_COND_INITIALIZER;
static int state[N]; static volatile double result;
static void compute(int n) { double x = n; for (int i = 0; i < n; i++) x = x * 1.0000001 + 1; result = x; }
static void *work(void *arg) { long i = (long)arg; for (;;) {
  pthread_mutex_lock(&lock); while (state[i] != 1) pthread_cond_wait(&given[i], &lock); pthread_mutex_unlock(&lock);
  compute(100000 + 20000 * i);
  pthread_mutex_lock(&lock); state[i] = 2; pthread_cond_signal(&done); pthread_mutex_unlock(&lock); } return 0; }
int main(void) { pthread_t t; for (long i = 0; i < N; i++) { pthread_cond_init(&given[i], 0); pthread_create(&t, 0, work, (void *)i); }
 for (;;) { pthread_mutex_lock(&lock); int any = 0;
  for (int i = 0; i < N; i++) if (state[i] != 1) { if (state[i] == 2) any = 1; state[i] = 1; pthread_cond_signal(&given[i]); }
  if (!any) pthread_cond_wait(&done, &lock); pthread_mutex_unlock(&lock);
  if (any) { compute(5000); if (write(1, "x", 1) != 1) return 1; } } }
END
gcc -O1 -o mailboxes mailboxes.c -lpthread; exec ./mailboxes"#,
        clients: None,
    },
];
