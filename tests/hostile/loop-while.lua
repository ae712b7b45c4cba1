-- A loop with nothing in it, for ever.
-- expect: timeout
while true do end
