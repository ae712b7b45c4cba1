-- A generic for whose iterator is a C function: no Lua function is ever entered.
-- expect: timeout
for _ in math.abs, 1, 1 do end
