//! Pipes and other byte channels, with whole messages.
//!
//! As in Linux, a pipe is a ring of pages. A message is appended to the last page if it fits. Otherwise it gets its own
//! pages. A page read to its end is free again, so a writer at a full pipe is woken for a page of messages. A readable
//! pipe wakes one waiting reader, a free page one waiting writer. All waits are exclusive: a task that slept wakes the
//! next of its kind if something is left. Before 6.14, a reader of a full pipe woke a writer even without a free page,
//! and the writer slept again behind the others. (Before 5.5, readers and writers were in one queue, and all were
//! woken: not modelled.)
//!
//! In a pipe of packets (`O_DIRECT`), each page takes one message. A socket has no pages. All its writers are woken
//! when three quarters are free.
//!
//! Wakeups are synchronous: the waker is about to sleep.

use std::collections::VecDeque;

use vruntime_sched::event::PrevState;
use vruntime_sched::{Policy, Waker};
use vruntime_trace::Sink;
use vruntime_workload::program::Channel;

use super::{Objects, WaitQueue};
use crate::interpreter::Flow;
use crate::machine::Machine;
use crate::program::Code;

const PAGE: u32 = 4096;

#[derive(Clone, Copy, Debug)]
struct Page {
    unread: u32,
    end: u32,
}

#[derive(Debug)]
enum Content {
    Pages {
        size: u32,
        most: usize,
        pages: VecDeque<Page>,
        /// Whether a page takes only one message.
        packets: bool,
    },
    /// `messages`: their number. Each has its own buffer.
    Bytes { capacity: u32, messages: u32 },
}

impl Content {
    /// Returns a message's bytes behind the last message, and the number of new pages for the rest.
    fn split(size: u32, pages: &VecDeque<Page>, bytes: u32) -> (u32, usize) {
        // Most messages are smaller than a page, and the division is slow.
        let (whole, part) = if bytes < size { (0, bytes) } else { (bytes / size, bytes % size) };
        let merges = part > 0 && pages.back().is_some_and(|last| last.end + part <= size);
        if merges { (part, whole as usize) } else { (0, whole as usize + usize::from(part > 0)) }
    }
}

#[derive(Debug)]
pub(crate) struct Pipe {
    content: Content,
    used: u32,
    readers: WaitQueue,
    writers: WaitQueue,
}

impl Pipe {
    pub(crate) fn new(pipe: &vruntime_workload::program::Pipe) -> Self {
        let content = match pipe.kind {
            Channel::Pipe | Channel::Packets => {
                let size = pipe.capacity.clamp(1, PAGE);
                let most = pipe.capacity.div_ceil(size).max(1) as usize;
                let packets = pipe.kind == Channel::Packets;
                Content::Pages { size, most, pages: VecDeque::with_capacity(most), packets }
            }
            Channel::Socket => Content::Bytes { capacity: pipe.capacity, messages: 0 },
        };
        Self { content, used: 0, readers: WaitQueue::default(), writers: WaitQueue::default() }
    }

    #[inline]
    fn is_waited_for(&self) -> bool {
        !(self.readers.is_empty() && self.writers.is_empty())
    }

    pub(crate) fn is_socket(&self) -> bool {
        matches!(self.content, Content::Bytes { .. })
    }

    fn messages(&self) -> u32 {
        match self.content {
            Content::Pages { .. } => 0,
            Content::Bytes { messages, .. } => messages,
        }
    }

    fn fits(&self, bytes: u32) -> bool {
        match &self.content {
            Content::Pages { size, most, pages, .. } => pages.len() + Content::split(*size, pages, bytes).1 <= *most,
            Content::Bytes { capacity, .. } => self.used < *capacity,
        }
    }

    fn is_full(&self) -> bool {
        match &self.content {
            Content::Pages { most, pages, .. } => pages.len() >= *most,
            Content::Bytes { .. } => false,
        }
    }

    /// Adds a message if there is room, and returns whether there was.
    #[inline]
    fn put(&mut self, bytes: u32) -> bool {
        match &mut self.content {
            Content::Pages { size, most, pages, packets } => {
                // Most messages are small, and go behind the last.
                if (1..*size).contains(&bytes)
                    && let Some(last) = pages.back_mut()
                    && last.end + bytes <= *size
                {
                    last.unread += bytes;
                    last.end += bytes;
                    self.used += bytes;
                    return true;
                }
                let (merged, own) = Content::split(*size, pages, bytes);
                if pages.len() + own > *most {
                    return false;
                }
                if merged > 0
                    && let Some(last) = pages.back_mut()
                {
                    last.unread += merged;
                    last.end += merged;
                }
                if own > 0 {
                    Self::append(pages, *size, bytes - merged, *packets);
                }
            }
            Content::Bytes { capacity, messages } => {
                if self.used >= *capacity {
                    return false;
                }
                *messages += 1;
            }
        }
        self.used += bytes;
        true
    }

    fn append(pages: &mut VecDeque<Page>, size: u32, bytes: u32, packets: bool) {
        let mut left = bytes;
        while left > 0 {
            let here = left.min(size);
            pages.push_back(Page { unread: here, end: if packets { size } else { here } });
            left -= here;
        }
    }

    fn get(&mut self, bytes: u32) {
        let before = self.used;
        self.used -= bytes;
        let pages = match &mut self.content {
            Content::Pages { pages, .. } => pages,
            Content::Bytes { messages, .. } => {
                // The messages count as equally long, rounded because reads may take part of one. An unread byte
                // keeps one message.
                let before = u64::from(before.max(1));
                let left = (u64::from(*messages) * u64::from(self.used) + before / 2) / before;
                *messages = (left as u32).max(u32::from(self.used > 0));
                return;
            }
        };
        let mut left = bytes;
        while let Some(first) = pages.front_mut() {
            let here = left.min(first.unread);
            first.unread -= here;
            left -= here;
            if first.unread > 0 {
                break;
            }
            pages.pop_front();
        }
    }
}

impl Objects {
    #[inline]
    fn put(&mut self, pipe: u32, bytes: u32) -> bool {
        let pipe = &mut self.pipes[pipe as usize];
        let put = pipe.put(bytes);
        self.buffers += u32::from(put && pipe.is_socket());
        put
    }

    #[inline]
    fn get(&mut self, pipe: u32, bytes: u32) {
        let pipe = &mut self.pipes[pipe as usize];
        let messages = pipe.messages();
        pipe.get(bytes);
        self.buffers -= messages - pipe.messages();
    }

    /// Passes `code`'s message if no task waits for the pipe, and the message or its room is there. Returns whether it
    /// did.
    #[inline(always)]
    #[allow(clippy::inline_always)] // see `Machine::passes_message`
    pub(crate) fn pass(&mut self, code: Code) -> bool {
        let (Code::PipeWrite { pipe, bytes } | Code::PipeRead { pipe, bytes }) = code else { return false };
        let this = &self.pipes[pipe as usize];
        if this.is_waited_for() {
            return false;
        }
        if matches!(code, Code::PipeWrite { .. }) {
            return self.put(pipe, bytes);
        }
        let there = this.used >= bytes;
        if there {
            self.get(pipe, bytes);
        }
        there
    }
}

impl<P: Policy, S: Sink> Machine<'_, P, S> {
    fn wanted(&self, queue: WaitQueue) -> Option<u32> {
        let first = queue.first()?;
        match self.programs.code[self.tasks[first as usize].pc as usize] {
            Code::PipeRead { bytes, .. } | Code::PipeWrite { bytes, .. } => Some(bytes),
            _ => None,
        }
    }

    /// Writes a message. `slept`: the task has waited for room.
    #[inline(always)]
    #[allow(clippy::inline_always)] // see `read`
    pub(crate) fn write(&mut self, cpu: usize, task: u32, index: u32, bytes: u32, slept: bool) -> Flow {
        let before = self.objects.pipes[index as usize].used;
        let put = self.objects.put(index, bytes);
        let pipe = &mut self.objects.pipes[index as usize];
        if !put {
            let others = pipe.writers;
            pipe.writers.push(&mut self.tasks, task);
            let this = &mut self.tasks[task as usize];
            (this.woken, this.due) = (false, self.core.now);
            // The room suffices for another writer, which otherwise waits for the next reader of a full pipe.
            let pipe = &self.objects.pipes[index as usize];
            if slept && self.pipes_wake_in_vain && self.wanted(others).is_some_and(|wanted| pipe.fits(wanted)) {
                self.wake_writers(cpu, index, 1);
            }
            return self.block_once_paid(cpu, task);
        }
        let (used, readers) = (pipe.used, pipe.readers);
        if self.wanted(readers).is_some_and(|wanted| (before < wanted || before == 0) && wanted <= used) {
            self.wake_reader(cpu, index);
        }
        if slept {
            let pipe = &self.objects.pipes[index as usize];
            if self.wanted(pipe.writers).is_some_and(|wanted| pipe.fits(wanted)) {
                self.wake_writers(cpu, index, 1);
            }
        }
        Flow::Done
    }

    /// Reads a message. `slept`: the task has waited for it.
    #[inline(always)]
    #[allow(clippy::inline_always)] // messages are most of what the workloads that switch the most do
    pub(crate) fn read(&mut self, cpu: usize, task: u32, index: u32, bytes: u32, slept: bool) -> Flow {
        let pipe = &self.objects.pipes[index as usize];
        if pipe.used < bytes {
            let pipe = &mut self.objects.pipes[index as usize];
            pipe.readers.push(&mut self.tasks, task);
            self.tasks[task as usize].due = self.core.now;
            return self.block(cpu, task, PrevState::Sleeping);
        }
        let waits = self.wanted(pipe.writers);
        let found_full = waits.is_some_and(|wanted| !pipe.fits(wanted));
        let in_vain = self.pipes_wake_in_vain && pipe.is_full();
        let before = pipe.used;
        self.objects.get(index, bytes);
        let pipe = &self.objects.pipes[index as usize];
        if let Some(wanted) = waits {
            match pipe.content {
                Content::Pages { .. } if in_vain || (found_full && pipe.fits(wanted)) => {
                    self.wake_writers(cpu, index, 1);
                }
                Content::Bytes { capacity, .. } if before > capacity / 4 && pipe.used <= capacity / 4 => {
                    self.wake_writers(cpu, index, 0);
                }
                _ => {}
            }
        }
        if slept {
            let pipe = &self.objects.pipes[index as usize];
            let used = pipe.used;
            if self.wanted(pipe.readers).is_some_and(|wanted| wanted <= used) {
                self.wake_reader(cpu, index);
            }
        }
        Flow::Done
    }

    fn wake_reader(&mut self, cpu: usize, index: u32) {
        let readers = self.objects.pipes[index as usize].readers;
        self.objects.pipes[index as usize].readers = self.wake_up(cpu, readers, 1, Waker::TaskSync);
    }

    /// Wakes `nr` writers, or all if `nr` is 0.
    fn wake_writers(&mut self, cpu: usize, index: u32, nr: u32) {
        let writers = self.objects.pipes[index as usize].writers;
        self.objects.pipes[index as usize].writers = self.wake_up(cpu, writers, nr, Waker::TaskSync);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn channel(kind: Channel, capacity: u32) -> Pipe {
        Pipe::new(&vruntime_workload::program::Pipe { name: "p".to_owned(), capacity, kind })
    }

    fn fill(pipe: &mut Pipe, bytes: u32) -> u32 {
        let mut written = 0;
        while pipe.put(bytes) {
            written += 1;
        }
        written
    }

    #[test]
    fn a_pipe_is_a_ring_of_pages() {
        let mut pipe = channel(Channel::Pipe, 65_536);
        assert_eq!(fill(&mut pipe, 100), 640);
        for _ in 0..39 {
            pipe.get(100);
            assert!(!pipe.fits(100));
        }
        // Small messages still fit behind the last.
        assert!(pipe.fits(96) && !pipe.fits(97));
        pipe.get(100);
        assert_eq!(fill(&mut pipe, 100), 40);
        assert_eq!(pipe.used, 64_000);
    }

    #[test]
    fn large_messages_take_whole_pages_and_their_rest_may_merge() {
        let mut pipe = channel(Channel::Pipe, 4 * 4096);
        // The second page has 904 bytes; 4196 = 100 behind them and a page.
        assert!(pipe.put(5000) && pipe.put(4196));
        assert!(pipe.fits(4096) && !pipe.fits(4097 + 4096));
        pipe.get(9196);
        assert_eq!((pipe.used, fill(&mut pipe, 4096)), (0, 4));
    }

    /// hackbench gets one more message than fits whole into 212992 bytes at 768 each.
    #[test]
    fn a_socket_takes_a_message_while_anything_is_free() {
        // Packets do not share pages.
        assert_eq!(fill(&mut channel(Channel::Packets, 16 * 4096), 512), 16);
        assert_eq!(fill(&mut channel(Channel::Packets, 16 * 4096), 5000), 8);
        assert_eq!(fill(&mut channel(Channel::Socket, 212_992 * 100 / 768), 100), 278);
    }

    #[test]
    fn a_socket_keeps_a_buffer_a_message_until_it_is_read() {
        let mut pipe = channel(Channel::Socket, 10_000);
        assert_eq!(fill(&mut pipe, 100), 100);
        let mut read = |bytes| {
            pipe.get(bytes);
            pipe.messages()
        };
        assert_eq!([read(100), read(1), read(99), read(800), read(8900), read(100)], [99, 99, 98, 90, 1, 0]);
        assert!(pipe.put(30) && pipe.put(70));
        assert_eq!(pipe.messages(), 2);
        pipe.get(100);
        assert_eq!((pipe.messages(), channel(Channel::Pipe, 4096).messages()), (0, 0));
    }
}
