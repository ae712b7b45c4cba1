-- Prints the order in which it runs.
for i = 1, 6 do
  it("test " .. i, function() print("ran " .. i, math.random(1000)) end)
end
describe("block", function()
  for i = 7, 9 do
    it("test " .. i, function() print("ran " .. i) end)
  end
end)
