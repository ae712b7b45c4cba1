-- A float loop whose step is too small to move it.
-- expect: timeout
for _ = 2.0 ^ 53, 2.0 ^ 53 + 2, 0.5 do end
