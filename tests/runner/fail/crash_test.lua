-- Crashes its process.
it("crashes", function()
  os.execute "kill -ABRT $PPID"
end)
