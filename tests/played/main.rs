//! Scenarios of our modules for other programs, with the built-in agent in those programs' clothes.

mod claude;
mod codex;
mod copilot;
mod gemini;
mod opencode;
