//! Every system call and every `unsafe` line of Skyhaul.
