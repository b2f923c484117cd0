-- A release is allowed at any time.
if not is_same then
    ARGV[3] = '1' -- passes nothing on
end
