//! The built-in fake agent: a real interactive terminal program
