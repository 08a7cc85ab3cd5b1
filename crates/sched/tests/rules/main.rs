//! Single rules of the kernels, each where it makes a difference.

mod averages;
mod bench;
mod changing;
mod clock;
mod sevens;
mod waking;
