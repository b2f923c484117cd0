-- A release is allowed at any time.
if guard.refuse_grants() then
    ARGV[3] = '1' -- passes nothing on
end
