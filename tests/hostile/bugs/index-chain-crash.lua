-- A chain of 100,000 field accesses ends in nil: Lua looks for a name for the message.
-- bug: getobjname calls itself once for each link, without limit; up to 5.4.6
-- stock: crashes, from 90,000 links on with a C stack of 8 MB, after 5 s
-- expect: error .
-- uninterrupted: the message is made in C, in quadratic time
local d = {}
d.a = d
local f = load("local d = ... return d" .. (".a"):rep(100000) .. ".b.c")
if not f then error("refused, as it should be") end
f(d)
