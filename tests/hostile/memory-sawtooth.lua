-- Half the limit is taken and dropped again and again, so that the collector is always at work.
-- expect: timeout
while true do
  local t = {}
  for i = 1, 100000 do t[i] = { i } end
end
