-- Exponential matching through gmatch.
-- expect: timeout
for _ in string.gmatch(("a"):rep(5000), ".-.-.-.-x") do end
