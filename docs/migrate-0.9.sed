# Renames in a program what version 0.9 of dlock renamed:
#
#     sed -i -f migrate-0.9.sed *.c *.h
#
# docs/migrating.md has what a person has to change.
s/\<struct dlock\>/struct dlock_handle/g
s/\<dlock_start\>/dlock_op_start/g
s/\<dlock_keep\>/dlock_keep_name/g
s/\<dlock_observe\>/dlock_client_observe/g
s/\<dlock_plugins\>/dlock_plugin_list/g
s/\<dlock_client_waiters\>/dlock_client_list_waiters/g
s,<dlock/\(notice\|observe\|set\)\.h>,<dlock/dlock.h>,
s/\<DLOCK_TRY\>/0/g
s/\<DLOCK_WAIT\>/DLOCK_AS_OPTIONS/g
s/\<dlock_client_next(\([^,]*\), &\([A-Za-z_0-9]*\), \([^()]*\)) == 1/dlock_client_next(\1, \&\2, \3) == DLOCK_OK \&\& \2.kind != DLOCK_NOTICE_NONE/
/wait_ms/!s/\(struct dlock_options [A-Za-z_0-9]* = {\.struct_size = sizeof [A-Za-z_0-9]*\)/\1, .wait_ms = DLOCK_AS_OPTIONS/
