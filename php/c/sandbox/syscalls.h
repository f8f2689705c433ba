/*
 * The system calls that a worker and the programs that its scripts start may make. What is not here gets ENOSYS, as on an
 * older kernel: programs then take another way. To add one: what can it do to other processes, to the kernel, or to
 * the machine? If nothing, it is FREE; if that depends on its arguments, seccomp.c needs a check for it.
 *
 * FREE      reaches only the caller, its descriptors and what its user and Landlock allow
 * REFUSED   manages the machine or looks into other processes: EPERM, so that programs say why they fail
 * a check   of seccomp.c, which looks at the arguments
 */

/* Files and descriptors. */
#define CALLS_OF_FILES(CALL) \
	CALL(read, FREE) CALL(write, FREE) CALL(readv, FREE) CALL(writev, FREE) CALL(pread64, FREE) CALL(pwrite64, FREE) \
	CALL(preadv, FREE) CALL(pwritev, FREE) CALL(preadv2, FREE) CALL(pwritev2, FREE) CALL(close, FREE) CALL(close_range, FREE) \
	CALL(openat, FREE) CALL(openat2, FREE) CALL(lseek, FREE) CALL(dup, FREE) CALL(dup3, FREE) CALL(pipe2, FREE) \
	CALL(fstat, FREE) CALL(newfstatat, FREE) CALL(statx, FREE) CALL(statfs, FREE) CALL(fstatfs, FREE) CALL(faccessat, FREE) \
	CALL(faccessat2, FREE) CALL(readlinkat, FREE) CALL(getdents64, FREE) CALL(getcwd, FREE) CALL(chdir, FREE) CALL(fchdir, FREE) \
	CALL(mkdirat, FREE) CALL(unlinkat, FREE) CALL(renameat, FREE) CALL(renameat2, FREE) CALL(linkat, FREE) CALL(symlinkat, FREE) \
	CALL(mknodat, NODE_AT) CALL(fchmod, FREE) CALL(fchmodat, FREE) CALL(fchmodat2, FREE) CALL(fchown, FREE) CALL(fchownat, FREE) \
	CALL(utimensat, FREE) CALL(umask, FREE) CALL(truncate, FREE) CALL(ftruncate, FREE) CALL(fallocate, FREE) CALL(fadvise64, FREE) \
	CALL(readahead, FREE) CALL(fsync, FREE) CALL(fdatasync, FREE) CALL(sync, FREE) CALL(syncfs, FREE) CALL(sync_file_range, FREE) \
	CALL(flock, FREE) CALL(fcntl, CONTROL) CALL(ioctl, DEVICE) CALL(sendfile, FREE) CALL(splice, FREE) CALL(tee, FREE) \
	CALL(vmsplice, FREE) CALL(copy_file_range, FREE) CALL(memfd_create, FREE) CALL(cachestat, FREE) \
	CALL(setxattr, FREE) CALL(lsetxattr, FREE) CALL(fsetxattr, FREE) CALL(getxattr, FREE) CALL(lgetxattr, FREE) CALL(fgetxattr, FREE) \
	CALL(listxattr, FREE) CALL(llistxattr, FREE) CALL(flistxattr, FREE) CALL(removexattr, FREE) CALL(lremovexattr, FREE) \
	CALL(fremovexattr, FREE) CALL(inotify_init1, FREE) CALL(inotify_add_watch, FREE) CALL(inotify_rm_watch, FREE) \
	CALL(landlock_create_ruleset, FREE) CALL(landlock_add_rule, FREE) CALL(landlock_restrict_self, FREE)

/* Waiting, time and connections. */
#define CALLS_OF_WAITING(CALL) \
	CALL(ppoll, FREE) CALL(pselect6, FREE) CALL(epoll_create1, FREE) CALL(epoll_ctl, FREE) CALL(epoll_pwait, FREE) \
	CALL(epoll_pwait2, FREE) CALL(eventfd2, FREE) CALL(signalfd4, FREE) CALL(timerfd_create, FREE) CALL(timerfd_settime, FREE) \
	CALL(timerfd_gettime, FREE) CALL(timer_create, FREE) CALL(timer_settime, FREE) CALL(timer_gettime, FREE) \
	CALL(timer_getoverrun, FREE) CALL(timer_delete, FREE) CALL(getitimer, FREE) CALL(setitimer, FREE) CALL(nanosleep, FREE) \
	CALL(clock_nanosleep, FREE) CALL(clock_gettime, FREE) CALL(clock_getres, FREE) CALL(gettimeofday, FREE) CALL(times, FREE) \
	CALL(socket, FAMILY) CALL(socketpair, FAMILY) CALL(connect, FREE) CALL(bind, FREE) CALL(listen, FREE) CALL(accept, FREE) \
	CALL(accept4, FREE) CALL(shutdown, FREE) CALL(sendto, FREE) CALL(recvfrom, FREE) CALL(sendmsg, FREE) CALL(recvmsg, FREE) \
	CALL(sendmmsg, FREE) CALL(recvmmsg, FREE) CALL(getsockname, FREE) CALL(getpeername, FREE) CALL(getsockopt, FREE) \
	CALL(setsockopt, FREE) CALL(shmget, FREE) CALL(shmat, FREE) CALL(shmctl, FREE) CALL(shmdt, FREE) CALL(semget, FREE) \
	CALL(semop, FREE) CALL(semctl, FREE) CALL(semtimedop, FREE) CALL(msgget, FREE) CALL(msgsnd, FREE) CALL(msgrcv, FREE) \
	CALL(msgctl, FREE) CALL(mq_open, FREE) CALL(mq_unlink, FREE) CALL(mq_timedsend, FREE) CALL(mq_timedreceive, FREE) \
	CALL(mq_notify, FREE) CALL(mq_getsetattr, FREE)

/* Memory and threads. */
#define CALLS_OF_MEMORY(CALL) \
	CALL(brk, FREE) CALL(mmap, FREE) CALL(munmap, FREE) CALL(mremap, FREE) CALL(mprotect, FREE) CALL(madvise, FREE) \
	CALL(msync, FREE) CALL(mincore, FREE) CALL(mlock, FREE) CALL(mlock2, FREE) CALL(munlock, FREE) CALL(mlockall, FREE) \
	CALL(munlockall, FREE) CALL(mbind, FREE) CALL(set_mempolicy, FREE) CALL(get_mempolicy, FREE) CALL(pkey_mprotect, FREE) \
	CALL(pkey_alloc, FREE) CALL(pkey_free, FREE) CALL(map_shadow_stack, FREE) CALL(mseal, FREE) CALL(membarrier, FREE) \
	CALL(rseq, FREE) CALL(futex, FREE) CALL(futex_waitv, FREE) CALL(futex_wake, FREE) CALL(futex_wait, FREE) \
	CALL(futex_requeue, FREE) CALL(set_robust_list, FREE) CALL(get_robust_list, OF_ITSELF) CALL(set_tid_address, FREE) \
	CALL(sched_yield, FREE) CALL(sched_getaffinity, FREE) CALL(sched_getparam, FREE) CALL(sched_getscheduler, FREE) \
	CALL(sched_getattr, FREE) CALL(sched_get_priority_max, FREE) CALL(sched_get_priority_min, FREE) \
	CALL(sched_rr_get_interval, FREE) CALL(sched_setaffinity, OF_ITSELF) CALL(sched_setparam, OF_ITSELF) \
	CALL(sched_setscheduler, OF_ITSELF) CALL(sched_setattr, OF_ITSELF) CALL(getcpu, FREE) CALL(getrandom, FREE)

/* Processes, users and signals. */
#define CALLS_OF_PROCESSES(CALL) \
	CALL(clone, FLAGS) CALL(clone3, ABSENT) CALL(execve, FREE) CALL(execveat, FREE) CALL(exit, FREE) CALL(exit_group, FREE) \
	CALL(wait4, FREE) CALL(waitid, FREE) CALL(kill, SIGNAL) CALL(tgkill, SIGNAL) CALL(tkill, THREAD) \
	CALL(rt_sigqueueinfo, SIGNAL) CALL(rt_tgsigqueueinfo, SIGNAL) CALL(pidfd_open, TARGET) CALL(pidfd_send_signal, SCOPED) \
	CALL(rt_sigaction, FREE) CALL(rt_sigprocmask, FREE) CALL(rt_sigreturn, FREE) CALL(rt_sigpending, FREE) \
	CALL(rt_sigtimedwait, FREE) CALL(rt_sigsuspend, FREE) CALL(sigaltstack, FREE) CALL(restart_syscall, FREE) \
	CALL(getpid, FREE) CALL(getppid, FREE) CALL(gettid, FREE) CALL(getpgid, FREE) CALL(setpgid, FREE) CALL(getsid, FREE) \
	CALL(setsid, FREE) CALL(getuid, FREE) CALL(geteuid, FREE) CALL(getgid, FREE) CALL(getegid, FREE) CALL(getresuid, FREE) \
	CALL(getresgid, FREE) CALL(getgroups, FREE) CALL(setuid, FREE) CALL(setgid, FREE) CALL(setreuid, FREE) CALL(setregid, FREE) \
	CALL(setresuid, FREE) CALL(setresgid, FREE) CALL(setgroups, FREE) CALL(setfsuid, FREE) CALL(setfsgid, FREE) CALL(capget, FREE) \
	CALL(capset, FREE) CALL(prctl, OPTION) CALL(seccomp, FREE) CALL(personality, PERSONA) CALL(uname, FREE) CALL(sysinfo, FREE) \
	CALL(getrusage, FREE) CALL(getrlimit, FREE) CALL(setrlimit, FREE) CALL(prlimit64, LIMIT) CALL(getpriority, FREE) \
	CALL(setpriority, PRIORITY) CALL(ioprio_get, FREE) CALL(ioprio_set, IO_PRIORITY)

/* What programs may know, but not do. */
#define CALLS_REFUSED(CALL) \
	CALL(ptrace, REFUSED) CALL(process_vm_readv, REFUSED) CALL(process_vm_writev, REFUSED) CALL(process_madvise, REFUSED) \
	CALL(process_mrelease, REFUSED) CALL(pidfd_getfd, REFUSED) CALL(kcmp, REFUSED) CALL(migrate_pages, REFUSED) \
	CALL(move_pages, REFUSED) CALL(perf_event_open, REFUSED) CALL(bpf, REFUSED) CALL(userfaultfd, REFUSED) \
	CALL(fanotify_init, REFUSED) CALL(fanotify_mark, REFUSED) CALL(keyctl, REFUSED) CALL(add_key, REFUSED) \
	CALL(request_key, REFUSED) CALL(mount, REFUSED) CALL(umount2, REFUSED) CALL(pivot_root, REFUSED) CALL(chroot, REFUSED) \
	CALL(open_tree, REFUSED) CALL(move_mount, REFUSED) CALL(fsopen, REFUSED) CALL(fsconfig, REFUSED) CALL(fsmount, REFUSED) \
	CALL(fspick, REFUSED) CALL(mount_setattr, REFUSED) CALL(unshare, REFUSED) CALL(setns, REFUSED) \
	CALL(name_to_handle_at, REFUSED) CALL(open_by_handle_at, REFUSED) CALL(init_module, REFUSED) CALL(finit_module, REFUSED) \
	CALL(delete_module, REFUSED) CALL(kexec_load, REFUSED) CALL(reboot, REFUSED) CALL(swapon, REFUSED) CALL(swapoff, REFUSED) \
	CALL(acct, REFUSED) CALL(quotactl, REFUSED) CALL(quotactl_fd, REFUSED) CALL(syslog, REFUSED) CALL(settimeofday, REFUSED) \
	CALL(clock_settime, REFUSED) CALL(clock_adjtime, REFUSED) CALL(adjtimex, REFUSED) CALL(sethostname, REFUSED) \
	CALL(setdomainname, REFUSED) CALL(vhangup, REFUSED) CALL(io_uring_setup, UNUSED) CALL(io_uring_enter, REFUSED) \
	CALL(io_uring_register, REFUSED)

/* Older names of the calls above, and what only this processor has. */
#ifdef __x86_64__
#define CALLS_OF_X86_64(CALL) \
	CALL(open, FREE) CALL(creat, FREE) CALL(stat, FREE) CALL(lstat, FREE) CALL(access, FREE) CALL(readlink, FREE) \
	CALL(getdents, FREE) CALL(mkdir, FREE) CALL(rmdir, FREE) CALL(unlink, FREE) CALL(rename, FREE) CALL(link, FREE) \
	CALL(symlink, FREE) CALL(mknod, NODE) CALL(chmod, FREE) CALL(chown, FREE) CALL(lchown, FREE) CALL(utime, FREE) \
	CALL(utimes, FREE) CALL(futimesat, FREE) CALL(pipe, FREE) CALL(dup2, FREE) CALL(poll, FREE) CALL(select, FREE) \
	CALL(epoll_create, FREE) CALL(epoll_wait, FREE) CALL(eventfd, FREE) CALL(signalfd, FREE) CALL(inotify_init, FREE) \
	CALL(alarm, FREE) CALL(pause, FREE) CALL(time, FREE) CALL(fork, FREE) CALL(vfork, FREE) CALL(getpgrp, FREE) \
	CALL(arch_prctl, FREE) CALL(iopl, REFUSED) CALL(ioperm, REFUSED) CALL(modify_ldt, REFUSED) CALL(kexec_file_load, REFUSED)
#else
#define CALLS_OF_X86_64(CALL)
#endif

#define ALL_CALLS(CALL) \
	CALLS_OF_FILES(CALL) CALLS_OF_WAITING(CALL) CALLS_OF_MEMORY(CALL) CALLS_OF_PROCESSES(CALL) CALLS_REFUSED(CALL) \
	CALLS_OF_X86_64(CALL)

/* Calls that are younger than some distribution's headers; from 424 on all processors have the same numbers. */
#ifndef __NR_process_madvise
#define __NR_process_madvise 440
#endif
#ifndef __NR_epoll_pwait2
#define __NR_epoll_pwait2 441
#endif
#ifndef __NR_mount_setattr
#define __NR_mount_setattr 442
#endif
#ifndef __NR_quotactl_fd
#define __NR_quotactl_fd 443
#endif
#ifndef __NR_landlock_create_ruleset
#define __NR_landlock_create_ruleset 444
#define __NR_landlock_add_rule 445
#define __NR_landlock_restrict_self 446
#endif
#ifndef __NR_process_mrelease
#define __NR_process_mrelease 448
#endif
#ifndef __NR_futex_waitv
#define __NR_futex_waitv 449
#endif
#ifndef __NR_cachestat
#define __NR_cachestat 451
#endif
#ifndef __NR_fchmodat2
#define __NR_fchmodat2 452
#endif
#ifndef __NR_map_shadow_stack
#define __NR_map_shadow_stack 453
#endif
#ifndef __NR_futex_wake
#define __NR_futex_wake 454
#define __NR_futex_wait 455
#define __NR_futex_requeue 456
#endif
#ifndef __NR_mseal
#define __NR_mseal 462
#endif
