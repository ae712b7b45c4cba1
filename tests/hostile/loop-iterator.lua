-- A generic for with an iterator that never returns nil.
-- expect: timeout
for _ in function() return 1 end do end
