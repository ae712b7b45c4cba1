-- Crashes its process.
it("crashes", function()
  os.execute "kill -SEGV $PPID"
end)
