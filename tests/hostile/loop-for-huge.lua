-- A numeric for from the least integer to the greatest.
-- expect: timeout
for _ = math.mininteger, math.maxinteger do end
