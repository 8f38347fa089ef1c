# Short names for what `cargo xtask` does.

# List the recipes
default:
    @just --list

# Watch a small team at work
demo *args:
    cargo xtask demo {{args}}

# Run all tests
test *args:
    cargo xtask test {{args}}

# Everything that must hold before a change is taken
check *steps:
    cargo xtask check {{steps}}

# Write docs/schema anew
schema:
    cargo xtask schema

# Measure
bench *args:
    cargo xtask bench {{args}}
