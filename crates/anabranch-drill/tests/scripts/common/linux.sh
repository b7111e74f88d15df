# Settings that the scripts here are written for.
sysctl -q net.ipv4.tcp_rmem="4096 540000 $((15*1024*1024))"
sysctl -q net.ipv4.tcp_congestion_control=cubic net.ipv4.tcp_slow_start_after_idle=0
