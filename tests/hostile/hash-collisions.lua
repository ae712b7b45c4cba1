-- Float keys that all hash alike, a few at a time; then one store makes the table rehash them all.
-- expect: ended
-- uninterrupted: a rehash is one instruction; 16,385 such keys take 0.3 s, 65,537 nearly 5 s
local t = {}
for i = 1, 16385 do
  t[1 + i * 2 ^ -50] = i
  if i % 500 == 0 then orrery.async.sleep(0) end
end
assert(t[1 + 2 ^ -50] == 1)
