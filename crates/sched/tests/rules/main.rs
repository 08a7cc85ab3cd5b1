//! Single rules of the kernels, each seen where it makes a difference.

mod averages;
mod bench;
mod changing;
mod clock;
mod sevens;
mod waking;
