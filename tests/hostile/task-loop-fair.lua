-- Fair tasks that loop; others may overtake them, and each has its own deadline.
-- expect: timeout
for _ = 1, 5 do
  orrery.async.run({ fair = true }, function() while true do end end)
end
