from everlog.kernel.udp_twin import Datagrams as Datagrams
from everlog.kernel.udp_twin import UdpSocket as UdpSocket
from everlog.kernel.udp_twin import interface_rows as interface_rows
