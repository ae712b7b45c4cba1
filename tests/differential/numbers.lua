-- Integers, floats, and the math library.

check("limits", function()
  return math.maxinteger, math.mininteger, math.maxinteger + 1 == math.mininteger, math.mininteger - 1 == math.maxinteger, -math.mininteger, math.mininteger // -1,
    math.mininteger % -1, math.maxinteger * 2, math.abs(math.mininteger), 9223372036854775807, 9223372036854775808, -9223372036854775808, 0x7fffffffffffffff, 0xffffffffffffffff
end)

check("division and modulo", function()
  local r = {}
  for _, a in ipairs { 7, -7, 7.5, -7.5, 0 } do
    for _, b in ipairs { 2, -2, 2.5, -2.5, math.huge, -math.huge } do
      r[#r + 1] = ("%g // %g = %g, %g %% %g = %g"):format(a, b, a // b, a, b, a % b)
    end
  end
  return r
end)

check("by zero", function()
  return 1 / 0, -1 / 0, 0 / 0 ~= 0 / 0, { pcall(function() return 1 // 0 end) }, { pcall(function() return 1 % 0 end) }, 1 // 0.0, -1 // 0.0, 1 % math.huge, -1 % math.huge, 1.0 % 0 ~= 1.0 % 0
end)

check("shifts and bits", function()
  return 1 << 63, 1 << 64, 1 << -1, -1 >> 1, -1 >> 63, -1 >> 64, -1 << 1, 5 & 3, 5 | 3, 5 ~ 3, ~0, ~5, "3" & 1, 2.0 | 1, { pcall(function() return 2.5 | 1 end) }, 1 << 62 << 1, 3 >> -2,
    { pcall(function() return 1 << 1e100 end) }, 1 << math.mininteger
end)

check("conversions", function()
  return math.tointeger(3.0), math.tointeger(3.5), math.tointeger("8"), math.tointeger("x"), math.tointeger(2^63), math.type(1), math.type(1.0), math.type("1"), { pcall(math.type) }, 3 | 0, 3.0 | 0,
    1e15, 1e16, 123456789012, 2^53, 2^63, -2^63 | 0, 10 // 1, 10 / 1, 3 == 3.0, math.ult(1, -1), math.ult(-1, 1)
end)

check("floor, ceil, modf, fmod", function()
  return math.floor(3.7), math.floor(-3.7), math.ceil(3.2), math.ceil(-3.2), math.floor(1e100), math.floor(5), { math.modf(3.7) }, { math.modf(-3.7) }, { math.modf(5) }, { math.modf(math.huge) }, { math.modf(-math.huge) },
    math.fmod(7, 3), math.fmod(-7, 3), math.fmod(7, -3), math.fmod(7.5, 2), { pcall(math.fmod, 1, 0) }, math.fmod(1, 0.0) ~= math.fmod(1, 0.0), math.fmod(math.mininteger, -1)
end)

check("functions", function()
  return math.abs(-5), math.abs(-5.5), math.max(1, 2.5, 2), math.min(3, 1, 2), { pcall(math.max) }, math.sqrt(16), math.exp(0), math.log(8, 2), math.log(100, 10), math.log(1), math.log(27, 3), math.pi, math.sin(0), math.cos(0),
    math.atan(1, 1), math.atan(1), math.deg(math.pi), math.rad(180), math.huge, -math.huge, math.max(1, 1.0), math.min(-0.0, 0.0)
end)

check("random within bounds", function()
  local ok = true
  for _ = 1, 100 do
    local a, b, c = math.random(), math.random(10), math.random(-5, 5)
    ok = ok and a >= 0 and a < 1 and b >= 1 and b <= 10 and c >= -5 and c <= 5
  end
  return ok, math.type(math.random(0)), { pcall(math.random, 0, -1) }, { pcall(math.random, 1, 2, 3) }, math.random(5, 5), math.type(math.random(math.mininteger, math.maxinteger))
end)

check("random, seeded", function()
  math.randomseed(42)
  local a = { math.random(1000), math.random(1000), math.random(1000), math.random(), math.random(0) }
  math.randomseed(42)
  local b = math.random(1000)
  math.randomseed(42, 7)
  local c = math.random(1000)
  math.randomseed(1.5 // 1)
  return a, a[1] == b, c, math.random(1000)
end)

check("printing", function()
  return tostring(1e15), tostring(-1e15), tostring(1e14 + 0.5), tostring(123456.789e3), tostring(0.1 + 0.2), tostring(1e-5), tostring(5e-324), tostring(1.7976931348623157e308), tostring(100 // 1.0), 1e300 * 1e10, -0.0 == 0.0, tostring(3.14159265358979)
end)

check("literals", function()
  return 0xA, 0Xa.8p1, 0x.1p4, 1e2, .5, 5., 3e-2, 0xffp-4, 0x1p-2, 1//1, 0e12, 0x0
end)

check("comparisons at the edges", function()
  return math.maxinteger < 2^63, math.maxinteger + 0.0 == 2^63, math.mininteger == -2^63, math.maxinteger >= 2^63, 2^53 + 1 == 2^53, (2^53 | 0) + 1 > 2^53, 1 < 1.0000001, math.huge > math.maxinteger, -math.huge < math.mininteger
end)

check("loops with overflow", function()
  local n = 0
  for _ = math.maxinteger - 2, math.maxinteger do n = n + 1 end
  for _ = math.mininteger, math.mininteger + 2 do n = n + 1 end
  for _ = 1, 0.5 do n = n + 100 end
  for _ = 3, 1, -math.maxinteger do n = n + 1 end
  for _ = 1, 3, math.maxinteger do n = n + 1 end
  return n
end)

check("accumulation", function()
  local s = 0.0
  for i = 1, 10000 do s = s + 1 / i end
  local p = 1
  for i = 1, 30 do p = p * i end
  return ("%.12f"):format(s), p
end, 30)

check("powers", function()
  return 2^10, 2^-1, (-2)^3, (-8)^(1/3) ~= (-8)^(1/3), 0^0, 2^0.5, -2^2, 2^3^2, 1e308^2
end)

check("string arithmetic", function()
  return "10" + 1, "10" + 1.0, "0x10" + 0, "1e1" + 0, " 7 " * 1, "3" // "2", "3" % "2", -"3", { pcall(function() return "a" + 1 end) }, { pcall(function() return "1" + {} end) }, "9223372036854775807" + 1, "9223372036854775808" + 0, "3.0" | 0
end)

check("gcd and primes", function()
  local function gcd(a, b) while b ~= 0 do a, b = b, a % b end return a end
  local n, sieve = 0, {}
  for i = 2, 500 do
    if not sieve[i] then n = n + 1 for j = i * i, 500, i do sieve[j] = true end end
  end
  return gcd(1071, 462), gcd(2^40 | 0, 2^20 | 0), n
end, 40)

check("wrong arguments", function()
  return { pcall(math.floor, "x") }, { pcall(math.sqrt) }, { pcall(math.tointeger, {}) }, { pcall(math.ult, 1.5, 2) }, { pcall(math.abs, nil) }, { pcall(math.log, "a") }, { pcall(math.random, 1.5) }, { pcall(math.fmod, 1) }
end)
