-- A reader that is a C function and never ends: digits for ever, and no Lua runs.
-- expect: timeout
load(os and os.clock or math.random)
